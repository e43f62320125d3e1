//! Modules and folders have a name with a meaning, because a `utils` or `core` collects unrelated code. There
//! is no `mod.rs`: a module `foo` is `foo.rs`, its parts are in `foo/`. The name of a test is a short promise.

use crate::tidy::{Finding, rust_source};
use crate::tree::Tree;

const EMPTY_WORDS: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "managers", "core", "misc"];

const MAX_TEST_NAME: usize = 60;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        if file.name() == "mod.rs" {
            let folder = file.path.trim_end_matches("/mod.rs");
            findings.push(Finding::error(&file.path, 1, format!("rename it to `{folder}.rs`")));
        }
        let parts = file.path.trim_end_matches(".rs").split('/');
        findings.extend(parts.filter_map(empty_word).map(|word| {
            Finding::error(
                &file.path,
                1,
                format!("`{word}` says nothing: name the file or folder after what it is for"),
            )
        }));
        findings.extend(long_test_names(&file.text).map(|(line, name)| {
            let length = name.chars().count();
            let message =
                format!("the name of the test has {length} characters, the limit is {MAX_TEST_NAME}");
            Finding::error(&file.path, line, message)
        }));
        findings.extend(inline_modules(&file.text).filter_map(|(line, name)| {
            let word = empty_word(name)?;
            Some(Finding::error(
                &file.path,
                line,
                format!("`{word}` says nothing: name the module after what it is for"),
            ))
        }));
    }
    findings
}

/// Finds a word without meaning at the end of a name: `path_utils` is as vague as `utils`.
fn empty_word(name: &str) -> Option<&'static str> {
    let last = name.rsplit(['_', '-']).next().unwrap_or(name);
    EMPTY_WORDS.iter().find(|word| **word == last).copied()
}

/// Modules defined inside a file; those in files of their own are checked by their path.
fn inline_modules(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = rust_source::code_only(text);
    let opens: Vec<bool> =
        code.lines().map(|line| line.contains("mod ") && line.trim_end().ends_with('{')).collect();
    text.lines().zip(1..).zip(opens).filter(|(_, opens)| *opens).filter_map(|((line, number), _)| {
        let (_, after) = line.split_once("mod ")?;
        Some((number, after.split_whitespace().next()?))
    })
}

/// Tests whose name is too long, with the line of the name.
fn long_test_names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_test = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let line = line.trim();
        if line.starts_with("#[") {
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
            return None;
        }
        let is_named = std::mem::take(&mut is_test);
        let (_, signature) = line.split_once("fn ").filter(|_| is_named)?;
        let name = signature.split('(').next()?;
        (name.chars().count() > MAX_TEST_NAME).then_some((number, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_file(path: &str, source: &str, expect: &[(usize, &str)]) {
        let expect: Vec<_> = expect.iter().map(|(line, part)| (path, *line, *part)).collect();
        assert_findings(&check(&Tree::of(&[(path, source)])), &expect);
    }

    #[test]
    fn empty_names_are_found_in_paths() {
        check_file("crates/a/src/utils.rs", "", &[(1, "`utils` says nothing")]);
        check_file("crates/core/src/lib.rs", "", &[(1, "`core` says nothing")]);
        check_file("crates/a/src/path_helpers/x.rs", "", &[(1, "`helpers`")]);
        check_file("crates/sinew-common/src/lib.rs", "", &[(1, "`common`")]);
        check_file("crates/a/src/score.rs", "", &[]);
        check_file("crates/a/src/commonly_used.rs", "", &[]);
    }

    #[test]
    fn empty_names_are_found_inside_files() {
        check_file("crates/a/src/b.rs", "\nmod utils {\n}\n", &[(2, "name the module")]);
        check_file("crates/a/src/b.rs", "// mod utils {\nmod tests {\n}\n", &[]);
    }

    #[test]
    fn mod_files_are_renamed() {
        check_file("crates/a/src/b/mod.rs", "", &[(1, "rename it to `crates/a/src/b.rs`")]);
    }

    #[test]
    fn long_names_of_tests_are_found() {
        let test = |length: usize| format!("#[test]\n#[ignore]\nfn {}() {{}}\n", "a".repeat(length));
        check_file("crates/a/src/b.rs", &test(60), &[]);
        check_file("crates/a/src/b.rs", &test(61), &[(3, "61 characters, the limit is 60")]);
        let tokio = format!("#[tokio::test(flavor = \"x\")]\nasync fn {}() {{}}\n", "a".repeat(61));
        check_file("crates/a/src/b.rs", &tokio, &[(2, "61 characters")]);
        check_file("crates/a/src/b.rs", &format!("fn {}() {{}}\n", "a".repeat(61)), &[]);
    }
}
