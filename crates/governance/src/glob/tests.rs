//! Paths that patterns match, alone and in long lists.

use std::os::unix::fs::symlink;

use super::*;
use crate::policy_environment::PathVariables;

fn globs(purpose: ListPurpose, patterns: &[&str]) -> PathGlobs {
    let mut builder = PathGlobsBuilder::new(purpose, NameComparison::CaseSensitive);
    for (line, pattern) in (1..).zip(patterns) {
        let pattern = PathPattern::parse(pattern, &PathVariables::default()).unwrap();
        builder.add("p", &pattern, &RuleRef { file: "f".into(), line, id: "i".into() }).unwrap();
    }
    builder.build().unwrap()
}

fn line(globs: &PathGlobs, path: impl AsRef<Path>) -> Option<u64> {
    globs.first_match(&NormalizedPath::canonical(path.as_ref()).unwrap()).map(|rule| rule.line)
}

#[test]
fn empty_alternative_matches_the_bare_name() {
    for purpose in [ListPurpose::Allow, ListPurpose::Forbid] {
        let globs = globs(purpose, &["/w/key{,.bak}"]);
        for name in ["/w/key", "/w/key.bak"] {
            assert_eq!(line(&globs, name), Some(1), "{name}");
        }
        assert_eq!(line(&globs, "/w/key.old"), None);
    }
}

#[test]
fn patterns_match_by_purpose() {
    let check = |pattern: &str, allowed: &[&str], forbidden_too: &[&str], never: &[&str]| {
        let (allow, forbid) = (globs(ListPurpose::Allow, &[pattern]), globs(ListPurpose::Forbid, &[pattern]));
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

/// Compares the trie with the `globset` expression of each pattern.
#[test]
fn trie_and_globset_agree() {
    let parts = ["a", "b", "*", "**", "a*", "*.b", "{a,.b}", "[ab]?", "{a*,}b"];
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
        let alone = globs(ListPurpose::Allow, &[pattern]);
        let texts = PathPattern::parse(pattern, &PathVariables::default()).unwrap().texts_with_folder();
        let build = |text: &String| {
            let mut builder = globset::GlobBuilder::new(text);
            builder.literal_separator(true).empty_alternates(true).build().unwrap()
        };
        let expressions: Vec<_> = texts.iter().map(|text| build(text).compile_matcher()).collect();
        for name in &names {
            // `globset` counts bytes and the trie counts characters, so the expected result uses one-byte
            // characters.
            let plain = name.replace(|c: char| !c.is_ascii(), "z");
            let expect = expressions.iter().any(|one| one.is_match(&plain));
            assert_eq!(line(&alone, name).is_some(), expect, "{pattern} {name}");
        }
    }
}

/// `globset` alone would match one byte.
#[test]
fn question_mark_matches_one_character() {
    let stray = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    for (pattern, names, others) in [
        ("/w/pass?", &["passé", "passx", "pass語", "pass😀"][..], &["pass", "passéx", "passxy"][..]),
        ("/w/?x", &["éx", "ax", "\nx"], &["x", "ééx"]),
        ("/w/??", &["éé", "ab", "aé"], &["é", "語", "a", "abc"]),
        ("/w/{?,ab}é*", &["xé", "éé", "abéé"], &["é", "xx"]),
        ("/w/{é,è}tat", &["état", "ètat"], &["etat", "tat"]),
    ] {
        for purpose in [ListPurpose::Allow, ListPurpose::Forbid] {
            let globs = globs(purpose, &[pattern]);
            let found = |name: &&str| line(&globs, Path::new("/w").join(name)).is_some();
            assert!(names.iter().all(found), "{pattern} {names:?}");
            assert!(!others.iter().any(found), "{pattern} {others:?}");
        }
    }
    let globs = globs(ListPurpose::Forbid, &["/w/??x"]);
    for (name, expect) in [(&b"/w/\xff\xfex"[..], true), (b"/w/\xc3\xc3x", true), (b"/w/\xffx", false)] {
        assert_eq!(line(&globs, stray(name)).is_some(), expect, "{name:?}");
    }
}

#[test]
fn class_with_non_ascii_letters_does_not_load() {
    for (pattern, class) in [("/w/[éè]tat", "[éè]"), ("/w/[a-é]", "[a-é]"), ("/w/[a]{[ü],b}", "[ü]")]
    {
        let bad = PathPattern::parse(pattern, &PathVariables::default()).unwrap_err();
        let message = format!("`{class}` in `{pattern}` has letters that are not ASCII");
        assert_eq!(bad.message, message);
        assert!(bad.suggestion.unwrap().contains("braces"), "{pattern}");
    }
    assert!(PathPattern::parse("/w/\\[é]/[a]é", &PathVariables::default()).is_ok());
}

#[test]
fn name_that_is_not_utf8_is_matched_by_its_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let name = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let globs = globs(ListPurpose::Forbid, &["/w/*.md", "/v/?x"]);
    assert_eq!(line(&globs, name(b"/w/\xff\n.md")), Some(1));
    assert_eq!(line(&globs, name(b"/v/\xffx/y")), Some(2));
}

/// Covers many patterns of each kind, and the limit on patterns with wildcards in one folder.
#[test]
fn list_of_100_000_patterns_is_searched() {
    let pattern = |n: usize| match n % 5 {
        0 => format!("/s{n}"),
        1 => format!("/o{n}/**"),
        2 => format!("/*/h{n}"),
        3 => format!("**/v{n}"),
        _ => format!("/p/{n}/*.md"),
    };
    let all: Vec<String> = (0..100_000).map(pattern).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let globs = globs(ListPurpose::Forbid, &all);
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
    let mut builder = PathGlobsBuilder::new(ListPurpose::Forbid, NameComparison::CaseSensitive);
    let rule = RuleRef { file: "f".into(), line: 1, id: "i".into() };
    let mut add = |n: usize| {
        let pattern = PathPattern::parse(&format!("/w/{n}*"), &PathVariables::default()).unwrap();
        builder.add("p", &pattern, &rule)
    };
    assert!((0..10_000).all(|n| add(n).is_ok()));
    assert!(add(10_000).unwrap_err().message.contains("more than 10000 patterns with wildcards"));
}

#[test]
fn first_matching_rule_in_the_file_is_named() {
    let globs = globs(ListPurpose::Forbid, &["/a/b/**", "/a/**", "**/c"]);
    assert_eq!(line(&globs, "/a/b/c"), Some(1));
    assert_eq!(line(&globs, "/a/c"), Some(2));
    assert_eq!(line(&globs, "/x/c"), Some(3));
    assert_eq!(line(&globs, "/x"), None);
}

#[test]
fn links_in_the_literal_prefix_are_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("real/deep")).unwrap();
    symlink("real", root.join("link")).unwrap();
    symlink(root.join("link/deep"), root.join("chain")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let pattern = |name: &str| root.join(name).display().to_string();
    let globs = globs(ListPurpose::Forbid, &[&pattern("link/x"), &pattern("chain/**"), &pattern("loop/y")]);
    assert_eq!(line(&globs, root.join("link/x")), Some(1), "as written");
    assert_eq!(line(&globs, root.join("real/x")), Some(1), "with the link resolved");
    assert_eq!(line(&globs, root.join("real/deep/a")), Some(2));
    assert_eq!(line(&globs, root.join("loop/y")), Some(3), "a loop is kept as written");
    assert_eq!(line(&globs, root.join("real/y")), None);
}

#[test]
fn relative_link_targets_are_resolved() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    symlink("../c/./d", root.join("a/up")).unwrap();
    symlink("./b", root.join("a/here")).unwrap();
    let names = ["a/up/x", "a/here/x"].map(|name| root.join(name).display().to_string());
    let globs = globs(ListPurpose::Forbid, &names.each_ref().map(String::as_str));
    let plain: Vec<_> = globs.patterns().iter().map(|written| written.literal_prefix.as_os_str()).collect();
    assert_eq!(plain, [root.join("c/d/x"), root.join("a/b/x")].each_ref().map(|path| path.as_os_str()));
}

#[test]
fn literal_paths_and_whole_folders_are_listed() {
    let globs = globs(ListPurpose::Forbid, &["/w", "/v/**", "/u/*.md", "/t/**/x"]);
    assert_eq!(globs.literal_paths(), [Path::new("/w"), Path::new("/v")]);
    assert_eq!(globs.whole_folders(), [Path::new("/v")]);
}
