//! Path patterns compiled, each with the line it stands on.
//!
//! `*` never crosses `/`, and `dir/**` covers `dir` itself. A rule that forbids matches the pattern as it is
//! written and with the links in its plain part followed, so that it holds whichever of the two names a caller
//! uses; links are followed once, when the policy is read. A rule that allows follows only links that belong to
//! root (`/tmp` on a Mac, `/home` on some systems): one that the agent could have made must not widen it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use tool::RuleRef;

use crate::name::{Name, fold};
use crate::pattern::{BadPattern, Pattern};
use crate::surroundings::FileNames;

/// A list of patterns, compiled.
#[derive(Debug)]
pub(crate) struct PathGlobs {
    set: GlobSet,
    /// The pattern each compiled glob comes from, in the order of the set.
    sources: Vec<usize>,
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
    set: GlobSetBuilder,
    sources: Vec<usize>,
    written: Vec<Written>,
    outright: Vec<PathBuf>,
}

impl PathGlobsBuilder {
    pub(crate) fn new(purpose: Purpose, names: FileNames) -> Self {
        PathGlobsBuilder {
            purpose,
            names,
            set: GlobSetBuilder::new(),
            sources: Vec::new(),
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
        let source = self.written.len();
        self.add_spelling(pattern, source)?;
        if resolved != literal {
            self.add_spelling(&pattern.moved_to(&resolved, rest), source)?;
        }
        if matches!(rest, "" | "**") {
            self.outright.push(resolved.clone());
        }
        self.written.push(Written {
            text: text.to_owned(),
            pattern: pattern.clone(),
            rule: rule.clone(),
            plain_part: resolved,
        });
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
            let built = GlobBuilder::new(&text).literal_separator(true).build();
            let glob = built.map_err(|error| BadPattern {
                message: format!("the pattern cannot be read: {}", error.kind()),
                suggestion: None,
            })?;
            self.set.add(glob);
            self.sources.push(source);
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
        let set = self.set.build().map_err(|error| BadPattern {
            message: format!("the patterns cannot be compiled together: {error}"),
            suggestion: Some("use fewer or simpler patterns".to_owned()),
        })?;
        Ok(PathGlobs { set, sources: self.sources, written: self.written, outright: self.outright, case })
    }
}

impl PathGlobs {
    /// A list that matches nothing.
    pub(crate) fn none() -> Self {
        PathGlobs {
            set: GlobSet::empty(),
            sources: Vec::new(),
            written: Vec::new(),
            outright: Vec::new(),
            case: Case::Kept,
        }
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
        let candidate = Candidate::new(folded.as_ref().unwrap_or(name).as_path());
        // Most names match nothing, and to find that out costs less than to list the matches.
        if !self.set.is_match_candidate(&candidate) {
            return None;
        }
        let first = self.set.matches_candidate(&candidate).into_iter().min()?;
        let source = *self.sources.get(first)?;
        self.written.get(source)
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
        check("/**", &["/", "/a", "/a/b"], &[], &[]);
        check("/", &["/"], &["/a", "/a/b"], &[]);
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
