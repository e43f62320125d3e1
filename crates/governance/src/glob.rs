//! Path patterns compiled, each with the line it stands on.
//!
//! `*` never crosses `/`, and `dir/**` covers `dir` itself. A rule that forbids matches the pattern as it is
//! written and with the links in its plain part followed, so that it holds whichever of the two names a caller
//! uses; links are followed once, when the policy is read. A rule that allows follows only links that belong to
//! root (`/tmp` on a Mac, `/home` on some systems): one that the agent could have made must not widen it.

mod tree;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tool::RuleRef;

use self::tree::{Tree, TreeBuilder};
use crate::name::{Name, fold};
use crate::pattern::{BadPattern, Pattern};
use crate::surroundings::FileNames;

/// A list of patterns, compiled.
#[derive(Debug)]
pub(crate) struct PathGlobs {
    /// Every spelling, with the place of its pattern in the list.
    tree: Tree,
    /// The patterns as they are written, in the order of the file.
    written: Vec<Written>,
    /// What is listed by its plain name, with everything below it, and with the links in it followed.
    outright: Vec<PathBuf>,
    case: Case,
}

/// A pattern as it is written, and where.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) pattern: Pattern,
    pub(crate) rule: RuleRef,
    /// The folder or file below which everything lies that it matches, with the links in it followed as its list does.
    pub(crate) plain_part: PathBuf,
}

impl Written {
    /// The same with the links in its plain part followed, where that is another pattern.
    pub(crate) fn as_it_leads(&self) -> Option<Pattern> {
        let (literal, rest) = self.pattern.literal_part();
        (self.plain_part != literal).then(|| self.pattern.moved_to(&self.plain_part, rest))
    }
}

/// Whether names are compared with their case taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Kept,
    Folded,
}

/// What a list of patterns is for, which decides how widely each is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Read narrowly.
    Allow,
    /// Read widely.
    Forbid,
}

/// Collects patterns for one list.
pub(crate) struct PathGlobsBuilder {
    purpose: Purpose,
    names: FileNames,
    tree: TreeBuilder,
    written: Vec<Written>,
    outright: Vec<PathBuf>,
}

impl PathGlobsBuilder {
    pub(crate) fn new(purpose: Purpose, names: FileNames) -> Self {
        PathGlobsBuilder {
            purpose,
            names,
            tree: TreeBuilder::new(),
            written: Vec::new(),
            outright: Vec::new(),
        }
    }

    /// Adds a pattern in every spelling its purpose asks for.
    pub(crate) fn add(&mut self, text: &str, pattern: &Pattern, rule: &RuleRef) -> Result<(), BadPattern> {
        let (literal, rest) = pattern.literal_part();
        let resolved = match self.purpose {
            Purpose::Allow => follow(&literal, belongs_to_root),
            Purpose::Forbid => follow(&literal, |_| true),
        };
        if matches!(rest, "" | "**") {
            self.outright.push(resolved.clone());
        }
        let written = Written {
            text: text.to_owned(),
            pattern: pattern.clone(),
            rule: rule.clone(),
            plain_part: resolved,
        };
        let source = self.written.len();
        self.add_spelling(pattern, source)?;
        if let Some(leads) = written.as_it_leads() {
            self.add_spelling(&leads, source)?;
        }
        self.written.push(written);
        Ok(())
    }

    fn add_spelling(&mut self, pattern: &Pattern, source: usize) -> Result<(), BadPattern> {
        let texts = match self.purpose {
            Purpose::Allow => pattern.with_folder_itself(),
            Purpose::Forbid => pattern.with_everything_below(),
        };
        for text in texts {
            let text = match self.case() {
                Case::Kept => text,
                Case::Folded => fold(&text),
            };
            self.tree.add(&text, source)?;
        }
        Ok(())
    }

    /// What is allowed is compared as it is written; what is forbidden, as widely as the system does.
    fn case(&self) -> Case {
        match (self.purpose, self.names) {
            (Purpose::Forbid, FileNames::CaseInsensitive) => Case::Folded,
            (Purpose::Allow, _) | (Purpose::Forbid, FileNames::CaseSensitive) => Case::Kept,
        }
    }

    pub(crate) fn build(self) -> Result<PathGlobs, BadPattern> {
        let case = self.case();
        let tree = self.tree.build()?;
        Ok(PathGlobs { tree, written: self.written, outright: self.outright, case })
    }
}

impl PathGlobs {
    /// A list that matches nothing.
    pub(crate) fn none() -> Self {
        PathGlobs { tree: Tree::empty(), written: Vec::new(), outright: Vec::new(), case: Case::Kept }
    }

    /// The folders that are listed with everything in them.
    pub(crate) fn whole_folders(&self) -> Vec<PathBuf> {
        let whole = self.written.iter().filter(|written| written.pattern.literal_part().1 == "**");
        whole.map(|written| written.plain_part.clone()).collect()
    }

    /// What is listed by its plain name, with everything below it, and with the links in it followed.
    pub(crate) fn outright(&self) -> &[PathBuf] {
        &self.outright
    }

    /// The rule of the first pattern, in the order of the file, that matches.
    pub(crate) fn first_match(&self, name: &Name) -> Option<&RuleRef> {
        self.find(name).map(|written| &written.rule)
    }

    /// The first pattern, in the order of the file, that matches.
    pub(crate) fn find(&self, name: &Name) -> Option<&Written> {
        if self.written.is_empty() {
            return None;
        }
        let folded = match self.case {
            Case::Kept => None,
            Case::Folded => Some(name.folded()),
        };
        let name = folded.as_ref().unwrap_or(name).as_path();
        self.written.get(self.tree.first(name.as_os_str().as_bytes())?)
    }

    /// The patterns as they are written, in the order of the file.
    pub(crate) fn written(&self) -> &[Written] {
        &self.written
    }

    /// Those that were looked at in vain before this one was found; all of them if none was.
    pub(crate) fn before(&self, found: Option<&Written>) -> impl Iterator<Item = (&RuleRef, String)> {
        // By its place in the list: the patterns of one line share their rule.
        let is_found = move |written: &&Written| found.is_some_and(|found| std::ptr::eq(found, *written));
        let skipped = self.written.iter().take_while(move |written| !is_found(written));
        skipped.map(|written| (&written.rule, written.text.clone()))
    }
}

/// Where an allowing pattern would lead if it followed every link, when that differs from where it does lead.
pub(crate) fn ignored_link(pattern: &Pattern) -> Option<PathBuf> {
    let (literal, _) = pattern.literal_part();
    let whole = follow(&literal, |_| true);
    (whole != follow(&literal, belongs_to_root)).then_some(whole)
}

/// The name of a path with root's links in it followed, and no others.
pub(crate) fn system_name(path: &Path) -> PathBuf {
    follow(path, belongs_to_root)
}

fn belongs_to_root(link: &Path) -> bool {
    fs::symlink_metadata(link).is_ok_and(|facts| facts.uid() == 0)
}

/// The name of the deepest existing part of a path with its links followed, and the rest as written. A link that
/// `trusted` does not accept is left as it is.
fn follow(path: &Path, trusted: impl Fn(&Path) -> bool) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut left = 40; // what the kernel follows before it gives up
    let mut rest: Vec<_> = path.iter().skip(1).map(ToOwned::to_owned).collect();
    rest.reverse();
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        match fs::read_link(&next) {
            Ok(target) if left > 0 && trusted(&next) => {
                left -= 1;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                rest.extend(target.iter().filter(|p| *p != "/" && *p != ".").map(ToOwned::to_owned).rev());
            }
            _ => real = next,
        }
    }
    real
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::surroundings::Variables;

    fn globs(purpose: Purpose, patterns: &[&str]) -> PathGlobs {
        let mut builder = PathGlobsBuilder::new(purpose, FileNames::CaseSensitive);
        for (line, pattern) in (1..).zip(patterns) {
            let pattern = Pattern::parse(pattern, &Variables::default()).unwrap();
            builder.add("p", &pattern, &RuleRef { file: "f".to_owned(), line, id: "i".to_owned() }).unwrap();
        }
        builder.build().unwrap()
    }

    fn line(globs: &PathGlobs, path: impl AsRef<Path>) -> Option<u64> {
        globs.first_match(&Name::canonical(path.as_ref()).unwrap()).map(|rule| rule.line)
    }

    #[test]
    fn a_choice_of_nothing_is_a_choice() {
        for purpose in [Purpose::Allow, Purpose::Forbid] {
            let globs = globs(purpose, &["/w/key{,.bak}"]);
            for name in ["/w/key", "/w/key.bak"] {
                assert_eq!(line(&globs, name), Some(1), "{name}");
            }
            assert_eq!(line(&globs, "/w/key.old"), None);
        }
    }

    #[test]
    fn what_each_pattern_covers() {
        let check = |pattern: &str, allowed: &[&str], forbidden_too: &[&str], never: &[&str]| {
            let (allow, forbid) = (globs(Purpose::Allow, &[pattern]), globs(Purpose::Forbid, &[pattern]));
            for path in allowed {
                assert_eq!((line(&allow, path), line(&forbid, path)), (Some(1), Some(1)), "{pattern} {path}");
            }
            for path in forbidden_too {
                assert_eq!((line(&allow, path), line(&forbid, path)), (None, Some(1)), "{pattern} {path}");
            }
            for path in never {
                assert_eq!((line(&allow, path), line(&forbid, path)), (None, None), "{pattern} {path}");
            }
        };
        check("/w", &["/w"], &["/w/a", "/w/a/b"], &["/w-evil", "/w-evil/a", "/", "/x/w"]);
        check("/w/", &["/w"], &["/w/a"], &["/w-evil"]);
        check("/w/**", &["/w", "/w/a", "/w/a/.b/c"], &[], &["/w-evil", "/", "/v/w"]);
        check("/w/*.md", &["/w/a.md", "/w/.md"], &["/w/a.md/x"], &["/w/a/b.md", "/w/a/b/secret.md", "/w"]);
        check("/w/*", &["/w/a"], &["/w/a/b"], &["/w"]);
        check("/w/*/c", &["/w/b/c"], &["/w/b/c/d"], &["/w/c", "/w/a/b/c"]);
        check("**/.env", &["/.env", "/a/b/.env"], &["/a/.env/x"], &["/a/.envy", "/a/x.env"]);
        check("**/.env.*", &["/a/.env.local"], &["/a/.env.d/x", "/.env.d/x/y"], &["/a/.env", "/a/.env/x"]);
        check("**/{id_rsa,id_dsa}", &["/a/id_rsa"], &["/a/id_dsa/x/y"], &["/a/id_rsa.pub", "/a/xid_rsa/x"]);
        check("/w/**/x", &["/w/x", "/w/a/b/x"], &["/w/x/y"], &["/w", "/x"]);
        check("/w/{a,b}", &["/w/a", "/w/b"], &["/w/a/x"], &["/w/c", "/w/ab", "/w/ab/x"]);
        check("/w/[ab]?", &["/w/a1"], &["/w/b2/x"], &["/w/a", "/w/a12", "/w/a/", "/w/a/x"]);
        check("/w/**/**", &["/w", "/w/a", "/w/a/b"], &[], &["/w-evil", "/"]);
        check("/w/**/**/x", &["/w/x", "/w/a/b/x"], &["/w/x/y"], &["/w", "/x"]);
        check("/**", &["/", "/a", "/a/b"], &[], &[]);
        check("/", &["/"], &["/a", "/a/b"], &[]);
    }

    /// Each pattern alone, by the expression that stands for it: the tree says the same of every name, whose characters count
    /// as one each.
    #[test]
    fn the_tree_agrees_with_the_expressions_of_its_patterns() {
        let parts = ["a", "b", "*", "**", "a*", "*.b", "{a,.b}", "[ab]?"];
        let all = parts.iter().flat_map(|one| parts.iter().map(move |two| (one, two)));
        let all = all.flat_map(|(one, two)| parts.iter().map(move |three| format!("/{one}/{two}/{three}")));
        let patterns: Vec<String> = parts.iter().map(|one| format!("/{one}")).chain(all).collect();
        let names = ["a", "b", "x.b", ".b", "aa", "a\u{e9}"];
        let below = |above: &[String]| -> Vec<String> {
            above.iter().flat_map(|above| names.iter().map(move |name| format!("{above}/{name}"))).collect()
        };
        let one = below(&[String::new()]);
        let two = below(&one);
        let three = below(&two);
        let names: Vec<String> = [one, two, three].concat();
        for pattern in &patterns {
            let alone = globs(Purpose::Allow, &[pattern]);
            let texts = Pattern::parse(pattern, &Variables::default()).unwrap().with_folder_itself();
            let build = |text: &String| {
                let mut builder = globset::GlobBuilder::new(text);
                builder.literal_separator(true).empty_alternates(true).build().unwrap()
            };
            let expressions: Vec<_> = texts.iter().map(|text| build(text).compile_matcher()).collect();
            for name in &names {
                // An expression of `globset` counts bytes where we count characters: it is asked of one of each.
                let plain = name.replace(|c: char| !c.is_ascii(), "z");
                let expect = expressions.iter().any(|one| one.is_match(&plain));
                assert_eq!(line(&alone, name).is_some(), expect, "{pattern} {name}");
            }
        }
    }

    /// As a reader counts letters, which is not how `globset` does.
    #[test]
    fn a_question_mark_is_one_character() {
        let stray = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        for (pattern, names, others) in [
            ("/w/pass?", &["passé", "passx", "pass語", "pass😀"][..], &["pass", "passéx", "passxy"][..]),
            ("/w/?x", &["éx", "ax", "\nx"], &["x", "ééx"]),
            ("/w/??", &["éé", "ab", "aé"], &["é", "語", "a", "abc"]),
            ("/w/{?,ab}é*", &["xé", "éé", "abéé"], &["é", "xx"]),
            ("/w/{é,è}tat", &["état", "ètat"], &["etat", "tat"]),
        ] {
            for purpose in [Purpose::Allow, Purpose::Forbid] {
                let globs = globs(purpose, &[pattern]);
                let found = |name: &&str| line(&globs, Path::new("/w").join(name)).is_some();
                assert!(names.iter().all(found), "{pattern} {names:?}");
                assert!(!others.iter().any(found), "{pattern} {others:?}");
            }
        }
        let globs = globs(Purpose::Forbid, &["/w/??x"]);
        for (name, expect) in [(&b"/w/\xff\xfex"[..], true), (b"/w/\xc3\xc3x", true), (b"/w/\xffx", false)] {
            assert_eq!(line(&globs, stray(name)).is_some(), expect, "{name:?}");
        }
    }

    #[test]
    fn a_class_of_letters_that_are_several_bytes_does_not_load() {
        for (pattern, class) in [("/w/[éè]tat", "[éè]"), ("/w/[a-é]", "[a-é]"), ("/w/[a]{[ü],b}", "[ü]")]
        {
            let bad = Pattern::parse(pattern, &Variables::default()).unwrap_err();
            let message = format!("`{class}` in `{pattern}` has letters that are not ASCII");
            assert_eq!(bad.message, message);
            assert!(bad.suggestion.unwrap().contains("braces"), "{pattern}");
        }
        assert!(Pattern::parse("/w/\\[é]/[a]é", &Variables::default()).is_ok());
    }

    #[test]
    fn a_name_that_is_no_text_is_matched_by_its_bytes() {
        use std::os::unix::ffi::OsStrExt;
        let name = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        let globs = globs(Purpose::Forbid, &["/w/*.md", "/v/?x"]);
        assert_eq!(line(&globs, name(b"/w/\xff\n.md")), Some(1));
        assert_eq!(line(&globs, name(b"/v/\xffx/y")), Some(2));
    }

    /// Each kind that is looked up in a table, so many times; and no more of the others than a judgement can bear.
    #[test]
    fn a_hundred_thousand_patterns_are_one_list() {
        let pattern = |n: usize| match n % 5 {
            0 => format!("/s{n}"),
            1 => format!("/o{n}/**"),
            2 => format!("/*/h{n}"),
            3 => format!("**/v{n}"),
            _ => format!("/p/{n}/*.md"),
        };
        let all: Vec<String> = (0..100_000).map(pattern).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let globs = globs(Purpose::Forbid, &all);
        for (name, expect) in [
            ("/s50000", Some(50_001)),
            ("/o50001/x/y", Some(50_002)),
            ("/x/h50002", Some(50_003)),
            ("/x/y/v50003/z", Some(50_004)),
            ("/p/50004/a.md", Some(50_005)),
            ("/p/50004/a.txt", None),
            ("/x", None),
        ] {
            assert_eq!(line(&globs, name), expect, "{name}");
        }
        let mut builder = PathGlobsBuilder::new(Purpose::Forbid, FileNames::CaseSensitive);
        let rule = RuleRef { file: "f".to_owned(), line: 1, id: "i".to_owned() };
        let mut add = |n: usize| {
            let pattern = Pattern::parse(&format!("/w/{n}*"), &Variables::default()).unwrap();
            builder.add("p", &pattern, &rule)
        };
        assert!((0..10_000).all(|n| add(n).is_ok()));
        assert!(add(10_000).unwrap_err().message.contains("more than 10000 patterns with wildcards"));
    }

    #[test]
    fn the_first_rule_in_the_file_is_named() {
        let globs = globs(Purpose::Forbid, &["/a/b/**", "/a/**", "**/c"]);
        assert_eq!(line(&globs, "/a/b/c"), Some(1));
        assert_eq!(line(&globs, "/a/c"), Some(2));
        assert_eq!(line(&globs, "/x/c"), Some(3));
        assert_eq!(line(&globs, "/x"), None);
    }

    #[test]
    fn links_in_the_plain_part_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink(root.join("link/deep"), root.join("chain")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let pattern = |name: &str| root.join(name).display().to_string();
        let globs = globs(Purpose::Forbid, &[&pattern("link/x"), &pattern("chain/**"), &pattern("loop/y")]);
        assert_eq!(line(&globs, root.join("link/x")), Some(1), "as it is written");
        assert_eq!(line(&globs, root.join("real/x")), Some(1), "as it leads");
        assert_eq!(line(&globs, root.join("real/deep/a")), Some(2));
        assert_eq!(line(&globs, root.join("loop/y")), Some(3), "a loop leads nowhere and stands as written");
        assert_eq!(line(&globs, root.join("real/y")), None);
    }

    #[test]
    fn a_link_may_go_up_and_stay_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("../c/./d", root.join("a/up")).unwrap();
        symlink("./b", root.join("a/here")).unwrap();
        let names = ["a/up/x", "a/here/x"].map(|name| root.join(name).display().to_string());
        let globs = globs(Purpose::Forbid, &names.each_ref().map(String::as_str));
        let plain: Vec<_> = globs.written().iter().map(|written| written.plain_part.as_os_str()).collect();
        assert_eq!(plain, [root.join("c/d/x"), root.join("a/b/x")].each_ref().map(|path| path.as_os_str()));
    }

    #[test]
    fn what_is_listed_by_name_is_known_as_such() {
        let globs = globs(Purpose::Forbid, &["/w", "/v/**", "/u/*.md", "/t/**/x"]);
        assert_eq!(globs.outright(), [Path::new("/w"), Path::new("/v")]);
        assert_eq!(globs.whole_folders(), [Path::new("/v")]);
    }
}
