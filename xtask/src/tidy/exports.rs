//! The interface of a crate fits on one screen: `lib.rs` exports at most thirty names. Crates that export
//! more are listed in `xtask/wide-crates.txt` with the number they may not exceed and the reason.

use crate::tidy::{Finding, rust_source};
use crate::tree::{File, Tree};

const LIMIT: usize = 30;
const EXCEPTIONS: &str = "xtask/wide-crates.txt";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let exceptions = exceptions(tree, &mut findings);
    for file in tree.ending("/src/lib.rs").filter(|file| file.path.starts_with("crates/")) {
        let count = exported_names(&rust_source::code_only(&file.text));
        let package = file.path.trim_start_matches("crates/").trim_end_matches("/src/lib.rs");
        let exception = exceptions.iter().find(|(_, name, _)| *name == package);
        let limit = exception.map_or(LIMIT, |(_, _, limit)| *limit);
        if count > limit {
            let message = format!("{count} exported names, the limit is {limit}: make some of them private");
            findings.push(Finding::error(&file.path, 1, message));
        }
        if let Some((line, ..)) = exception.filter(|_| count < limit) {
            let message =
                format!("`{package}` exports {count} names: lower the number, or delete the line at {LIMIT}");
            findings.push(Finding::error(EXCEPTIONS, *line, message));
        }
    }
    findings
}

/// Reads `crate: number: reason`, one per line.
fn exceptions<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> Vec<(usize, &'a str, usize)> {
    let lines = tree.file(EXCEPTIONS).into_iter().flat_map(File::lines);
    let mut exceptions = Vec::new();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
        let mut fields = text.splitn(3, ": ");
        let fields = (fields.next(), fields.next().and_then(|number| number.parse().ok()), fields.next());
        match fields {
            (Some(package), Some(limit), Some(_reason)) => exceptions.push((line, package, limit)),
            _ => findings.push(Finding::error(EXCEPTIONS, line, "write `crate: number: reason`")),
        }
    }
    exceptions
}

/// Counts the names after `pub use`, `pub mod`, `pub type` and the like. `pub(crate)` is not part of the
/// interface.
fn exported_names(code: &str) -> usize {
    let statements = code.split(';').map(|statement| {
        statement.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ")
    });
    statements
        .filter_map(|statement| {
            let exported = statement.trim().strip_prefix("pub ")?;
            let names = exported.split(',').filter(|part| !part.trim_matches([' ', '}']).is_empty());
            Some(names.count())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    const LIB: &str = "crates/a/src/lib.rs";

    fn names(count: usize) -> String {
        let names: Vec<String> = (0..count).map(|n| format!("Name{n}")).collect();
        format!(
            "//! Docs, with a comma.\n\nmod b;\npub(crate) use b::Inner;\npub use b::{{\n    {},\n}};\n",
            names.join(", ")
        )
    }

    #[test]
    fn more_than_thirty_exports_are_too_many() {
        assert_findings(&check(&Tree::of(&[(LIB, &names(30))])), &[]);
        assert_findings(
            &check(&Tree::of(&[(LIB, &names(31))])),
            &[(LIB, 1, "31 exported names, the limit is 30")],
        );
        let more = format!("{}pub mod c;\n", names(30));
        assert_findings(&check(&Tree::of(&[(LIB, &more)])), &[(LIB, 1, "31 exported names")]);
    }

    #[test]
    fn a_wide_crate_has_a_number_that_only_falls() {
        let check_with = |count: usize, list: &str, expect: &[(&str, usize, &str)]| {
            assert_findings(&check(&Tree::of(&[(LIB, &names(count)), (EXCEPTIONS, list)])), expect);
        };
        check_with(40, "# why\na: 40: a reason\n", &[]);
        check_with(41, "a: 40: a reason\n", &[(LIB, 1, "the limit is 40")]);
        check_with(39, "a: 40: a reason\n", &[(EXCEPTIONS, 1, "lower the number")]);
        check_with(3, "a: 40\n", &[(EXCEPTIONS, 1, "write `crate")]);
    }
}
