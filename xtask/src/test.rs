//! `cargo xtask test`: builds the product, runs every test against it, and says in one line how that went.

use std::ops::AddAssign;
use std::path::Path;

use anyhow::{Result, bail};

use crate::process::{self, Ended};
use crate::tree::{Root, Tree};
use crate::{node, programs, project, python, tidy::rust_source};

/// Where the tests that drive the real program find it.
const BINARY: &str = "SINEW_BIN";

/// How many tests ended which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The task: all tests, or those that `arguments` select. The numbers are the last line, good or bad.
pub(crate) fn command(root: &Root, arguments: &[String]) -> Result<()> {
    let (counts, ended) = run(root, arguments)?;
    if let Err(error) = verdict(counts, ended) {
        bail!("{error}\n\n{counts}");
    }
    println!("\n{counts}");
    Ok(())
}

/// Fails unless something ran and all of it passed.
pub(crate) fn verdict(counts: Counts, ended: Ended) -> Result<()> {
    match (ended, counts) {
        (Ended::Badly, Counts { failed: 0, .. }) => {
            bail!("the test runner failed before or between the tests")
        }
        (Ended::Badly, Counts { failed, .. }) => bail!("{failed} failing; their names are above"),
        (Ended::Well, Counts { passed: 0, .. }) => bail!("no test ran"),
        (Ended::Well, _) => Ok(()),
    }
}

/// Runs them and counts.
pub(crate) fn run(root: &Root, arguments: &[String]) -> Result<(Counts, Ended)> {
    let binary = project::build_binary(root, project::Profile::Dev)?;
    let runner = Runner::find(root);
    let mut counts = Counts::default();
    let mut ended = execute(root, runner, arguments, &binary, &mut counts)?;
    if arguments.is_empty() && has_doctests(&root.read_tree()?) {
        let documented = execute(root, Runner::Doctest, &[], &binary, &mut counts)?;
        ended = if documented == Ended::Badly { documented } else { ended };
    }
    Ok((counts, ended))
}

#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    CargoTest,
    Doctest,
}

impl Runner {
    fn find(root: &Root) -> Self {
        if process::works(&mut root.cargo(&["nextest", "--version"])) {
            return Runner::Nextest;
        }
        println!("cargo-nextest is not installed: using cargo test, where a hanging test is not stopped");
        Runner::CargoTest
    }

    fn words(self) -> &'static [&'static str] {
        match self {
            Runner::Nextest => &["nextest", "run", "--no-fail-fast"],
            Runner::CargoTest => &["test", "--no-fail-fast", "--lib", "--bins", "--tests"],
            Runner::Doctest => &["test", "--no-fail-fast", "--doc"],
        }
    }

    /// The whole command line: all packages, unless `extra` names some.
    fn command_line(self, extra: &[String]) -> Vec<&str> {
        let names_packages = extra.iter().any(|word| word.starts_with("-p") || word.starts_with("--package"));
        let all = if names_packages { None } else { Some("--workspace") };
        self.words().iter().copied().chain(all).chain(extra.iter().map(String::as_str)).collect()
    }
}

fn execute(
    root: &Root,
    runner: Runner,
    extra: &[String],
    binary: &Path,
    counts: &mut Counts,
) -> Result<Ended> {
    let mut tests = root.cargo(&runner.command_line(extra));
    tests.env(BINARY, binary);
    tests.envs(python::with_packages(root));
    if let Some(folder) = node::with_packages(root) {
        tests.env(node::VARIABLE, folder);
    }
    tests.env(programs::VARIABLE, programs::for_everybody(root));
    process::watch(&mut tests, |line| *counts += counts_in(line))
}

/// The numbers of a summary line, of nextest or of cargo test; zero for any other line.
fn counts_in(line: &str) -> Counts {
    let nextest = line.trim().strip_prefix("Summary [").and_then(|rest| rest.split_once(" run: "));
    // Indented, it is the output of a failed test that nextest shows and has counted itself.
    let harness = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "));
    let mut counts = Counts::default();
    let Some((_, list)) = nextest.or(harness) else { return counts };
    for item in without_remarks(list).split([',', ';']) {
        let Some((number, word)) = item.trim().split_once(' ') else { continue };
        let number = number.parse().unwrap_or(0);
        match word.trim() {
            "passed" => counts.passed += number,
            "failed" | "timed out" | "exec failed" => counts.failed += number,
            _ => {}
        }
    }
    counts
}

/// `17 passed (1 slow, 2 leaky), 1 failed` counts the slow ones twice unless the remark goes.
fn without_remarks(list: &str) -> String {
    let mut depth = 0_i32;
    let outside = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && *c != ')'
    };
    list.chars().filter(outside).collect()
}

/// Whether some documentation holds code that rustdoc would run.
fn has_doctests(tree: &Tree) -> bool {
    tree.ending(".rs").any(|file| file.path.starts_with("crates/") && rust_source::has_doctest(&file.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, passed: u64, failed: u64) {
        assert_eq!(counts_in(line), Counts { passed, failed }, "{line}");
    }

    #[test]
    fn summaries_are_counted() {
        check("     Summary [   0.014s] 19 tests run: 19 passed, 2 skipped", 19, 0);
        check(
            "     Summary [   9.1s] 20/40 tests run: 17 passed (1 slow, 1 leaky), 2 failed, 1 timed out, 0 skipped",
            17,
            3,
        );
        check("     Summary [   0.1s] 1 test run: 0 passed, 1 exec failed, 0 skipped", 0, 1);
        check("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out", 5, 0);
        check("test result: FAILED. 3 passed; 2 failed; 0 ignored", 3, 2);
        check("    test result: FAILED. 0 passed; 1 failed; 0 ignored", 0, 0);
        check("running 3 tests", 0, 0);
        check("test it_says_3 passed, 4 failed ... ok", 0, 0);
    }

    #[test]
    fn all_packages_are_tested_unless_some_are_named() {
        let line = |extra: &str| {
            let extra: Vec<String> = extra.split_whitespace().map(str::to_owned).collect();
            Runner::Nextest.command_line(&extra).join(" ")
        };
        assert_eq!(line(""), "nextest run --no-fail-fast --workspace");
        assert_eq!(line("floor"), "nextest run --no-fail-fast --workspace floor");
        assert_eq!(line("-p ledger torn"), "nextest run --no-fail-fast -p ledger torn");
        assert_eq!(line("--package=ledger"), "nextest run --no-fail-fast --package=ledger");
    }

    #[test]
    fn nothing_run_is_not_success() {
        let (none, good) = (Counts::default(), Counts { passed: 2, failed: 0 });
        assert!(verdict(good, Ended::Well).is_ok());
        assert_eq!(verdict(none, Ended::Well).unwrap_err().to_string(), "no test ran");
        assert!(verdict(good, Ended::Badly).is_err());
        let bad = Counts { passed: 1, failed: 2 };
        assert_eq!(verdict(bad, Ended::Badly).unwrap_err().to_string(), "2 failing; their names are above");
    }

    #[test]
    fn doctests_are_looked_for_in_the_crates() {
        let documented = "/// ```\n/// let x = 1;\n/// ```\npub fn f() {}\n";
        assert!(has_doctests(&Tree::of(&[("crates/a/src/lib.rs", documented)])));
        assert!(!has_doctests(&Tree::of(&[("xtask/src/main.rs", documented)])));
        assert!(!has_doctests(&Tree::of(&[("crates/a/src/lib.rs", "//! ```text\n//! a → b\n//! ```\n")])));
    }
}
