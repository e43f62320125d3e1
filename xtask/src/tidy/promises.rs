//! Tables of promises, in SECURITY.md, and of what the policy commands state, in docs/assurance.md: each row names tests
//! that exist, and campaigns that `cargo xtask soak` knows.

use crate::soak;
use crate::tree::Tree;

use super::{Finding, catalogue};

const PAGE: &str = "SECURITY.md";
const HEAD: &str = "| promise | how | tests | campaigns |";
/// Page and head of each table.
const TABLES: [(&str, &str); 2] =
    [(PAGE, HEAD), ("docs/assurance.md", "| command | what it states | tests | campaigns |")];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    TABLES.iter().flat_map(|(page, head)| check_table(tree, page, head)).collect()
}

fn check_table(tree: &Tree, name: &str, head: &str) -> Vec<Finding> {
    let Some(page) = tree.file(name) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut rows = page.lines().skip_while(|(_, line)| *line != head);
    if rows.next().is_none() {
        return vec![Finding::error(name, 1, format!("has no table of promises: it begins with `{head}`"))];
    }
    for (number, row) in rows.skip(1).take_while(|(_, line)| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        let [_, _, tests, campaigns] = cells.as_slice() else {
            findings.push(Finding::error(name, number, "a promise has four cells"));
            continue;
        };
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            let message = "names no test: name one that fails if the promise is broken";
            findings.push(Finding::error(name, number, message));
        }
        for test in named.iter().filter(|test| !catalogue::exists(tree, test).unwrap_or_default()) {
            findings.push(Finding::error(name, number, format!("no test is called `{test}`")));
        }
        let campaigns = campaigns.split(',').map(str::trim).filter(|name| !name.is_empty());
        for unknown in campaigns.filter(|campaign| !soak::names().contains(campaign)) {
            findings.push(Finding::error(name, number, format!("no campaign is called `{unknown}`")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_rows(rows: &str, expect: &[(&str, usize, &str)]) {
        let page = format!("# Security\n{HEAD}\n|---|---|---|---|\n{rows}\n\ntext\n");
        let suite = "#[test]\nfn runs() {}\n";
        let tree = Tree::of(&[(PAGE, &page), ("tests/suite/calls.rs", suite), ("tests/suite/main.rs", "")]);
        assert_findings(&check(&tree), expect);
    }

    #[test]
    fn a_promise_names_existing_tests_and_campaigns() {
        check_rows("| a | b | `tests::sinew calls::runs` | kills, fuzz |", &[]);
        check_rows("| a | `tests::sinew calls::runs` | kills |", &[(PAGE, 4, "four cells")]);
        check_rows("| a | b | `tests::sinew calls::runs` |  |", &[]);
        check_rows("| a | b | `tests::sinew calls::gone` | kills |", &[(PAGE, 4, "no test is called")]);
        check_rows("| a | b | one | kills |", &[(PAGE, 4, "names no test")]);
        check_rows("| a | b | `tests::sinew calls::runs` | kill |", &[(PAGE, 4, "no campaign is called")]);
        let tree = Tree::of(&[(PAGE, "# Security\n")]);
        assert_findings(&check(&tree), &[(PAGE, 1, "no table of promises")]);
    }
}
