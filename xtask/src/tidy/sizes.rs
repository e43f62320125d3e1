//! A file has one purpose and stays short. Lines of the test module do not count; a long test file is only a
//! warning. Clippy checks the length of functions (`clippy.toml`).

use crate::tidy::{Finding, rust_source};
use crate::tree::{File, Tree};

const WARN: usize = 300;
const FAIL: usize = 500;

/// Files that may be longer, one per line as `path: reason`.
const EXCEPTIONS: &str = "xtask/large-files.txt";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let exceptions = exceptions(tree, &mut findings);
    for file in tree.ending(".rs") {
        let lines = rust_source::production_lines(&file.text);
        let excepted = exceptions.iter().find(|exception| exception.path == file.path);
        match excepted {
            Some(exception) if lines <= FAIL => {
                let message = format!("`{}` has {lines} lines: take it off this list", file.path);
                findings.push(Finding::error(EXCEPTIONS, exception.line, message));
            }
            Some(_) => {}
            None => findings.extend(judge(file, lines)),
        }
    }
    for exception in exceptions.iter().filter(|exception| tree.file(exception.path).is_none()) {
        let message = format!("there is no file `{}`: take it off this list", exception.path);
        findings.push(Finding::error(EXCEPTIONS, exception.line, message));
    }
    findings
}

fn judge(file: &File, lines: usize) -> Option<Finding> {
    let advice = "find the second job in it and give it a file";
    let is_test = file.path.starts_with("tests/") || file.stem() == "tests";
    if lines > FAIL && !is_test {
        let message =
            format!("{lines} lines, the limit is {FAIL}: {advice}, or list it in {EXCEPTIONS} with a reason");
        return Some(Finding::error(&file.path, 1, message));
    }
    let limit = if is_test { FAIL } else { WARN };
    (lines > limit)
        .then(|| Finding::warning(&file.path, 1, format!("{lines} lines, aim below {limit}: {advice}")))
}

struct Exception<'a> {
    line: usize,
    path: &'a str,
}

fn exceptions<'a>(tree: &'a Tree, findings: &mut Vec<Finding>) -> Vec<Exception<'a>> {
    let Some(list) = tree.file(EXCEPTIONS) else { return Vec::new() };
    let mut exceptions = Vec::new();
    for (line, text) in list.lines().filter(|(_, text)| !text.trim().is_empty() && !text.starts_with('#')) {
        match text.split_once(": ") {
            Some((path, reason)) if !reason.trim().is_empty() => exceptions.push(Exception { line, path }),
            _ => findings.push(Finding::error(EXCEPTIONS, line, "write `path: reason`")),
        }
    }
    exceptions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{Severity, assert_findings};

    fn lines(count: usize) -> String {
        "x();\n".repeat(count)
    }

    fn check_files(files: &[(&str, &str)], expect: &[(&str, usize, &str)]) -> Vec<Finding> {
        let findings = check(&Tree::of(files));
        assert_findings(&findings, expect);
        findings
    }

    #[test]
    fn long_files_warn_and_then_fail() {
        check_files(&[("crates/a/src/b.rs", &lines(300))], &[]);
        let warned =
            check_files(&[("crates/a/src/b.rs", &lines(301))], &[("crates/a/src/b.rs", 1, "aim below 300")]);
        assert!(warned.iter().all(|finding| finding.severity == Severity::Warning));
        let failed = check_files(
            &[("crates/a/src/b.rs", &lines(501))],
            &[("crates/a/src/b.rs", 1, "the limit is 500")],
        );
        assert!(failed.iter().all(|finding| finding.severity == Severity::Error));
    }

    #[test]
    fn tests_do_not_count_as_production() {
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(290), lines(600));
        check_files(&[("crates/a/src/b.rs", &tested)], &[]);
        let warned =
            check_files(&[("tests/src/b.rs", &lines(501))], &[("tests/src/b.rs", 1, "aim below 500")]);
        assert!(warned.iter().all(|finding| finding.severity == Severity::Warning));
    }

    #[test]
    fn an_exception_needs_a_reason_a_file_and_a_need() {
        let long = lines(600);
        let list = "# why\ncrates/a/src/b.rs: one table, read as one\n";
        check_files(&[("crates/a/src/b.rs", &long), (EXCEPTIONS, list)], &[]);
        let bare = [("crates/a/src/b.rs", long.as_str()), (EXCEPTIONS, "crates/a/src/b.rs\n")];
        check_files(
            &bare,
            &[(EXCEPTIONS, 1, "write `path: reason`"), ("crates/a/src/b.rs", 1, "the limit is 500")],
        );
        check_files(&[("crates/a/src/b.rs", "x\n"), (EXCEPTIONS, list)], &[(EXCEPTIONS, 2, "take it off")]);
        check_files(&[(EXCEPTIONS, list)], &[(EXCEPTIONS, 2, "there is no file")]);
    }
}
