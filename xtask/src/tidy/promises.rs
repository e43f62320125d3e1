//! Tables of promises, in SECURITY.md, and of what the commands state, in docs/assurance.md: each row names tests that
//! exist, and campaigns that `cargo xtask soak` knows. Every command of docs/cli.md is in the second table, or in the list
//! below it of commands that state nothing about what holds.

use std::collections::BTreeSet;

use crate::soak;
use crate::tree::Tree;

use super::{Finding, catalogue};

const PAGE: &str = "SECURITY.md";
const HEAD: &str = "| promise | how | tests | campaigns |";
/// Page of what the commands state, and the head of its table.
const STATEMENTS_PAGE: &str = "docs/assurance.md";
const STATEMENTS_HEAD: &str = "| command | what it states | tests | campaigns |";
/// Begin of the list of the other commands.
const NO_STATEMENT: &str = "These commands state nothing about what holds for other calls:";
/// Page with a heading for each command.
const COMMANDS_PAGE: &str = "docs/cli.md";
const COMMAND_HEADING: &str = "## `sinew ";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let tables = [(PAGE, HEAD), (STATEMENTS_PAGE, STATEMENTS_HEAD)];
    let rows = tables.iter().flat_map(|(page, head)| check_table(tree, page, head));
    rows.chain(check_commands(tree)).collect()
}

/// Reports commands that are neither in the table of statements nor in the list below it, and names of none.
fn check_commands(tree: &Tree) -> Vec<Finding> {
    let (Some(page), Some(commands)) = (tree.file(STATEMENTS_PAGE), tree.file(COMMANDS_PAGE)) else {
        return Vec::new();
    };
    let headings: Vec<&str> = commands
        .lines()
        .filter_map(|(_, line)| line.strip_prefix(COMMAND_HEADING)?.strip_suffix('`'))
        .collect();
    let is_group = |name: &str| headings.iter().any(|other| other.starts_with(&format!("{name} ")));
    let mut named = BTreeSet::new();
    let mut findings = Vec::new();
    for (number, text) in statement_lines(&page.text) {
        for quoted in text.split('`').skip(1).step_by(2) {
            let words: Vec<&str> =
                quoted.split(' ').take_while(|word| !word.starts_with(['-', '"'])).collect();
            let name = words.join(" ");
            if !headings.contains(&name.as_str()) {
                let message = format!("`{COMMANDS_PAGE}` has no command `{name}`");
                findings.push(Finding::error(STATEMENTS_PAGE, number, message));
            }
            named.insert(name);
        }
    }
    let missing = headings.iter().filter(|name| !is_group(name) && !named.contains(**name));
    findings.extend(missing.map(|name| {
        let message = format!(
            "`{name}` is neither in the table of statements nor in the list below it: name the tests that make the calls"
        );
        Finding::error(STATEMENTS_PAGE, 1, message)
    }));
    findings
}

/// Returns the first cells of the table of statements and the lines of the list below it, with their numbers.
fn statement_lines(page: &str) -> Vec<(usize, &str)> {
    let lines = || (1..).zip(page.lines());
    let rows = lines().skip_while(|(_, line)| *line != STATEMENTS_HEAD).skip(2);
    let rows = rows.take_while(|(_, line)| line.starts_with('|'));
    let cells = rows.filter_map(|(number, line)| Some((number, line.split(" | ").next()?)));
    let list = lines().skip_while(|(_, line)| !line.starts_with(NO_STATEMENT));
    cells.chain(list.take_while(|(_, line)| !line.is_empty())).collect()
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

    #[test]
    fn every_command_has_a_row_or_is_listed() {
        let commands = "# Commands\n## `sinew`\n## `sinew mode`\n## `sinew mode get`\n## `sinew mode set`\n## `sinew logs`\n";
        let check_page = |rows: &str, list: &str, expect: &[(&str, usize, &str)]| {
            let page =
                format!("{STATEMENTS_HEAD}\n|---|---|---|---|\n{rows}\n{NO_STATEMENT}\n{list}\n\n`else`\n");
            let tree = Tree::of(&[(STATEMENTS_PAGE, &page), (COMMANDS_PAGE, commands)]);
            assert_findings(&check_commands(&tree), expect);
        };
        let row = "| `mode set --now`, `mode get` | a | b |  |\n";
        check_page(row, "`logs`.", &[]);
        check_page(row, "", &[(STATEMENTS_PAGE, 1, "`logs` is neither")]);
        check_page(row, "`logs`, `gone`", &[(STATEMENTS_PAGE, 6, "no command `gone`")]);
        check_page(
            "| `mode set` | `x` | b |  |\n",
            "`logs`",
            &[(STATEMENTS_PAGE, 1, "`mode get` is neither")],
        );
    }
}
