//! Modules and folders have a name with a meaning, because a `utils` or `core` collects unrelated code. There
//! is no `mod.rs`: a module `foo` is `foo.rs`, its parts are in `foo/`.

use crate::tidy::{Finding, rust_source};
use crate::tree::Tree;

const EMPTY_WORDS: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "managers", "core", "misc"];

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
}
