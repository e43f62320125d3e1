//! A type name has one meaning in the workspace: two crates do not define the same one. Names that are idiomatic in
//! their module (`Error`, `Builder`) and names that wait for a more precise one are listed in
//! `xtask/shared-type-names.txt`; the list may only become shorter. Test code is not checked.

use std::collections::BTreeMap;

use crate::tidy::{Finding, rust_source};
use crate::tree::{File, Tree};

const SHARED: &str = "xtask/shared-type-names.txt";
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "union", "type"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let shared: Vec<(usize, &str)> = tree
        .file(SHARED)
        .map(|list| list.lines().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect())
        .unwrap_or_default();
    let mut used = vec![false; shared.len()];
    let mut first: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        let Some(package) = package_of(file) else { continue };
        for (line, name) in defined_types(&rust_source::production_code(&file.text)) {
            match first.get(&name) {
                Some((other, path)) if *other != package => {
                    let listed = shared.iter().position(|(_, listed)| *listed == name);
                    if let Some(used) = listed.and_then(|at| used.get_mut(at)) {
                        *used = true;
                        continue;
                    }
                    let message = format!(
                        "`{name}` is also a type of `{other}` ({path}): name one of them more precisely"
                    );
                    findings.push(Finding::error(&file.path, line, message));
                }
                Some(_) => {}
                None => {
                    first.insert(name, (package, &file.path));
                }
            }
        }
    }
    let unused = shared.iter().zip(used).filter(|(_, used)| !used);
    findings.extend(unused.map(|((line, name), _)| {
        Finding::error(SHARED, *line, format!("`{name}` is a type of one crate only: delete this line"))
    }));
    findings
}

/// The crate a production file belongs to; test files and examples have none.
fn package_of(file: &File) -> Option<&str> {
    let (package, rest) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
    let is_test = rest.split('/').any(|part| part == "tests" || part == "tests.rs");
    (!is_test).then_some(package)
}

/// Types defined at the top level of a file; associated types and types inside functions are indented.
fn defined_types(code: &str) -> Vec<(usize, String)> {
    let definition = |line: &str| {
        let line = line.strip_prefix("pub").unwrap_or(line);
        let line =
            line.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(line, |(_, rest)| rest);
        let (keyword, rest) = line.trim_start().split_once(' ')?;
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (KEYWORDS.contains(&keyword) && !name.is_empty()).then_some(name)
    };
    code.lines()
        .zip(1..)
        .filter(|(line, _)| !line.starts_with(' '))
        .filter_map(|(line, number)| Some((number, definition(line)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn a_name_of_two_crates_is_found() {
        let files = [
            ("crates/a/src/x.rs", "pub struct Report;\nstruct Error;\n"),
            ("crates/a/src/y.rs", "enum Report {}\n"),
            ("crates/b/src/x.rs", "\npub(crate) enum Report {}\npub enum Error {}\n"),
            (SHARED, "# why\nError\n"),
        ];
        assert_findings(&check(&Tree::of(&files)), &[("crates/b/src/x.rs", 2, "also a type of `a`")]);
        let unused = [("crates/a/src/x.rs", "struct Error;\n"), (SHARED, "Error\n")];
        assert_findings(&check(&Tree::of(&unused)), &[(SHARED, 1, "delete this line")]);
    }

    #[test]
    fn tests_and_inner_types_do_not_count() {
        let files = [
            ("crates/a/src/x.rs", "pub struct Report;\n"),
            ("crates/b/src/tests.rs", "struct Report;\n"),
            ("crates/b/tests/x.rs", "struct Report;\n"),
            ("crates/b/src/x.rs", "impl Iterator for X {\n    type Report = u8;\n}\n"),
            ("crates/b/src/y.rs", "#[cfg(test)]\nmod tests {\nstruct Report;\n}\n"),
        ];
        assert_findings(&check(&Tree::of(&files)), &[]);
    }
}
