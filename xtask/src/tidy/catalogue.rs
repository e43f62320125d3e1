//! Catalogue of the source documents (`tests/catalogue`): each statement has an id of its own and names tests
//! that exist, and the README states the number of statements of each document.
//!
//! The files are a small part of YAML, which is read line by line.

use std::collections::HashSet;

use crate::tidy::Finding;
use crate::tree::{File, Tree};

const FOLDER: &str = "tests/catalogue/";
const README: &str = "tests/catalogue/README.md";

/// Statement of a document, with the tests that hold it.
#[derive(Default)]
struct Row<'a> {
    line: usize,
    id: &'a str,
    statement: &'a str,
    /// Deviation of Sinew from the statement.
    differs: Option<&'a str>,
    /// Decision page about the deviation, without `.md`.
    decision: Option<&'a str>,
    tests: Vec<(usize, &'a str)>,
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(readme) = tree.file(README) else {
        return vec![Finding::error(README, 1, "the page is missing")];
    };
    let mut findings = Vec::new();
    let mut seen = HashSet::new();
    for file in tree.ending(".yaml").filter(|file| file.path.starts_with(FOLDER)) {
        let rows = read_rows(file, &mut findings);
        for row in &rows {
            if !seen.insert(row.id) {
                findings.push(Finding::error(&file.path, row.line, format!("the id `{}` is taken", row.id)));
            }
            check_row(tree, file, row, &mut findings);
        }
        findings.extend(wrong_count(readme, file, rows.len()));
    }
    findings
}

/// Reads the rows of a file. A line that does not belong to a row is a finding.
fn read_rows<'a>(file: &'a File, findings: &mut Vec<Finding>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (number, line) in file.lines().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        if let Some(id) = line.strip_prefix("- id: ") {
            rows.push(Row { line: number, id, ..Row::default() });
            continue;
        }
        let is_read = rows.last_mut().is_some_and(|row| read_member(row, number, line));
        if !is_read {
            let message =
                "write `- id:`, `statement:`, `differs:`, `decision:` and `tests:` as README.md shows";
            findings.push(Finding::error(&file.path, number, message));
        }
    }
    rows
}

/// Reads a line of a row after its first. Returns false if the line has another form.
fn read_member<'a>(row: &mut Row<'a>, number: usize, line: &'a str) -> bool {
    let quoted = |text: &'a str| text.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.contains('"'));
    if let Some(text) = line.strip_prefix("  statement: ").and_then(quoted) {
        row.statement = text;
    } else if let Some(text) = line.strip_prefix("  differs: ").and_then(quoted) {
        row.differs = Some(text);
    } else if let Some(page) = line.strip_prefix("  decision: ") {
        row.decision = Some(page);
    } else if let Some(test) = line.strip_prefix("    - ") {
        row.tests.push((number, test));
    } else {
        return line == "  tests:";
    }
    true
}

fn check_row(tree: &Tree, file: &File, row: &Row<'_>, findings: &mut Vec<Finding>) {
    let mut report = |line, message: String| findings.push(Finding::error(&file.path, line, message));
    let number = row.id.strip_prefix(file.stem()).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        report(row.line, format!("`{}` is not an id of this file: write `{}-NN`", row.id, file.stem()));
    }
    if row.statement.is_empty() {
        report(row.line, format!("`{}` has no statement", row.id));
    }
    match (row.differs, row.decision) {
        (Some(_), Some(page)) if tree.file(&format!("docs/decisions/{page}.md")).is_none() => {
            report(row.line, format!("`docs/decisions/{page}.md` does not exist"));
        }
        (Some(_), None) | (None, Some(_)) => {
            report(row.line, format!("`{}` has one of `differs` and `decision`: write both or none", row.id));
        }
        _ => {}
    }
    if row.tests.is_empty() {
        report(row.line, format!("`{}` has no test: name one that fails if the statement is false", row.id));
    }
    for (line, test) in row.tests.iter().filter(|(_, test)| !exists(tree, test).unwrap_or_default()) {
        report(
            *line,
            format!("no test is called `{test}`: write the name as `cargo nextest list` prints it"),
        );
    }
}

/// Returns true if the tree has a test of this name: the id of its binary, a space, its path. `None` if the
/// name has another form.
pub(crate) fn exists(tree: &Tree, name: &str) -> Option<bool> {
    let (binary, path) = name.split_once(' ')?;
    let (package, target) = binary.split_once("::").unwrap_or((binary, ""));
    let root = match (package, target) {
        ("tests", "sinew") => "tests/suite".to_owned(),
        ("xtask", _) => "xtask/src".to_owned(),
        (_, target) if target.is_empty() || target.starts_with("bin/") => format!("crates/{package}/src"),
        (_, target) => format!("crates/{package}/tests/{target}"),
    };
    let (modules, function) = path.rsplit_once("::").unwrap_or(("", path));
    let modules: Vec<&str> = modules.split("::").filter(|module| !module.is_empty()).collect();
    // A module is a file or part of a file, so the longest path that is a file has the test.
    let (file, inline) = (0..=modules.len()).rev().find_map(|length| {
        let (outer, inline) = modules.split_at_checked(length)?;
        Some((module_file(tree, &root, outer)?, inline))
    })?;
    let has_module = |module: &&str| file.text.contains(&format!("mod {module} {{"));
    Some(inline.iter().all(has_module) && has_test(file, function))
}

fn module_file<'t>(tree: &'t Tree, root: &str, modules: &[&str]) -> Option<&'t File> {
    if modules.is_empty() {
        let roots = [format!("{root}/lib.rs"), format!("{root}/main.rs"), format!("{root}.rs")];
        return roots.iter().find_map(|path| tree.file(path));
    }
    tree.file(&format!("{root}/{}.rs", modules.join("/")))
}

/// Returns true if the file has this function with the attribute of a test.
fn has_test(file: &File, function: &str) -> bool {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let declared = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        let mut above = lines.iter().take(at).rev();
        let is_attribute = |line: &&&str| line.starts_with("#[") || line.starts_with("//");
        declared.and_then(|rest| rest.split('(').next()) == Some(function)
            && above
                .by_ref()
                .take_while(is_attribute)
                .any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    })
}

/// Reports a number of statements in the README that is not the number of rows.
fn wrong_count(readme: &File, file: &File, count: usize) -> Option<Finding> {
    let link = format!("({})", file.name());
    let Some((number, line)) = readme.lines().find(|(_, line)| line.starts_with('|') && line.contains(&link))
    else {
        return Some(Finding::error(README, 1, format!("add a line for `{}` to the table", file.name())));
    };
    let stated = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default().trim();
    let message = format!("`{}` has {count} statements, not `{stated}`", file.name());
    (stated != count.to_string()).then(|| Finding::error(README, number, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    const DATA: &str = "tests/catalogue/000.yaml";
    const ROW: &str = "# Document 000.\n\n- id: 000-01\n  statement: \"It holds.\"\n  tests:\n    - guardrail check::tests::it_holds\n";
    const COUNT: &str = "| document | statements |\n|---|---|\n| [000](000.yaml) | 1 |\n";

    fn check_tree(readme: &str, rows: &str, expect: &[(&str, usize, &str)]) {
        let tree = Tree::of(&[
            (README, readme),
            (DATA, rows),
            ("docs/decisions/0001-a.md", ""),
            ("crates/guardrail/src/lib.rs", "mod tests {\n    #[test]\n    fn at_the_root() {}\n}\n"),
            ("crates/guardrail/src/check.rs", "#[cfg(test)]\nmod tests;\n"),
            (
                "crates/guardrail/src/check/tests.rs",
                "#[test]\nfn it_holds() {}\nfn helper() {}\n#[tokio::test(flavor = \"x\")]\n// Reason.\nasync fn later() {}\n",
            ),
            ("crates/guardrail/tests/agreement.rs", "#[test]\nfn agrees() {}\n"),
            ("tests/suite/main.rs", "mod calls;\n"),
            ("tests/suite/calls.rs", "#[test]\n#[cfg(unix)]\nfn runs() {}\n"),
        ]);
        assert_findings(&check(&tree), expect);
    }

    #[test]
    fn a_row_names_tests_that_exist() {
        check_tree(COUNT, ROW, &[]);
        let with = |test: &str| ROW.replace("guardrail check::tests::it_holds", test);
        for fine in [
            "guardrail check::tests::later",
            "guardrail tests::at_the_root",
            "guardrail::agreement agrees",
            "tests::sinew calls::runs",
        ] {
            check_tree(COUNT, &with(fine), &[]);
        }
        for wrong in [
            "guardrail check::tests::gone",
            "guardrail check::tests::helper",
            "guardrail check::it_holds",
            "guardrail tests::it_holds",
            "guardrail::check::tests::it_holds",
            "tests::sinew guardrail::runs",
            "it_holds",
        ] {
            check_tree(COUNT, &with(wrong), &[(DATA, 6, "no test is called")]);
        }
        let none = ROW.replace("    - guardrail check::tests::it_holds\n", "");
        check_tree(COUNT, &none, &[(DATA, 3, "`000-01` has no test")]);
    }

    #[test]
    fn ids_are_unique_and_of_their_file() {
        let twice = format!("{ROW}{}", ROW.replace("holds.", "holds again."));
        check_tree(&COUNT.replace("1 |", "2 |"), &twice, &[(DATA, 9, "`000-01` is taken")]);
        for wrong in ["001-01", "000-1a", "000-", "1"] {
            check_tree(COUNT, &ROW.replace("000-01", wrong), &[(DATA, 3, "write `000-NN`")]);
        }
    }

    #[test]
    fn a_deviation_has_its_decision() {
        let with = |more: &str| ROW.replace("  tests:\n", &format!("{more}  tests:\n"));
        let differs = "  differs: \"Another word.\"\n";
        check_tree(COUNT, &with(&format!("{differs}  decision: 0001-a\n")), &[]);
        check_tree(COUNT, &with(differs), &[(DATA, 3, "write both or none")]);
        check_tree(COUNT, &with("  decision: 0001-a\n"), &[(DATA, 3, "write both or none")]);
        let gone = with(&format!("{differs}  decision: 0002-b\n"));
        check_tree(COUNT, &gone, &[(DATA, 3, "0002-b.md` does not exist")]);
    }

    #[test]
    fn other_lines_are_not_ignored() {
        check_tree(COUNT, &format!("{ROW}  test: guardrail x\n"), &[(DATA, 7, "as README.md shows")]);
        let bare = ROW.replace("\"It holds.\"", "It holds.");
        check_tree(COUNT, &bare, &[(DATA, 4, "as README.md shows"), (DATA, 3, "has no statement")]);
    }

    #[test]
    fn the_readme_states_the_number_of_statements() {
        check_tree(&COUNT.replace("1 |", "2 |"), ROW, &[(README, 3, "has 1 statements, not `2`")]);
        check_tree("", ROW, &[(README, 1, "add a line for `000.yaml`")]);
        assert_findings(&check(&Tree::of(&[(DATA, ROW)])), &[(README, 1, "the page is missing")]);
    }
}
