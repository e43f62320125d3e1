//! `cargo xtask test`: builds the product, runs every test against it, and prints the counts in the last
//! line.

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::left_out::{self, Reports};
use crate::ordinary_user::OrdinaryUser;
use crate::process::{self, Ended};
use crate::tree::{Root, Tree};
use crate::{chromium, clients, conformance, nats, node, programs, project, python, tidy::rust_source};

/// Variable by which tests that run the real program find it.
const BINARY: &str = "SINEW_BIN";

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Tests that passed, but were left out in whole or in part.
    pub(crate) left_out: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.left_out += other.left_out;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs all tests, or those that `arguments` select. The last line has the counts, also after a failure.
pub(crate) fn command(root: &Root, arguments: &[String]) -> Result<()> {
    command_with(root, arguments, &[])
}

/// Like `command`, with variables for the tests.
pub(crate) fn command_with(
    root: &Root,
    arguments: &[String],
    variables: &[(&'static str, &Path)],
) -> Result<()> {
    let (counts, ended) = run(root, arguments, variables)?;
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

/// Runs the tests and counts the results. If the task runs as root, it runs them as an ordinary user, and
/// then as root those that report that they were left out.
pub(crate) fn run(
    root: &Root,
    arguments: &[String],
    variables: &[(&'static str, &Path)],
) -> Result<(Counts, Ended)> {
    let binary = project::build_binary(root, project::Profile::Dev)?;
    chromium::prepare();
    let (runner, user) = (Runner::find(root), OrdinaryUser::if_root(root, &binary)?);
    let suite = Suite { root, binary, variables, reports: Reports::create()? };
    let mut counts = Counts::default();
    let mut tests = suite.command(&runner.command_line(arguments));
    if let Some(user) = &user {
        tests = user.runs_tests_of(&tests);
    }
    let mut ended = watch(&mut tests, &mut counts)?;
    let mut left_out = suite.reports.take()?;
    if user.is_some() && !left_out.is_empty() {
        // A test that leaves itself out was already counted as passed.
        counts.passed = counts.passed.saturating_sub(left_out.len() as u64);
        let words = runner.command_line_for(arguments, left_out.keys());
        ended = ended.and(watch(&mut suite.command(&words), &mut counts)?);
        left_out = suite.reports.take()?;
    }
    if arguments.is_empty() && has_doctests(&root.read_tree()?) {
        let doctests = Runner::Doctest.command_line(&[]);
        ended = ended.and(watch(&mut suite.command(&doctests), &mut counts)?);
    }
    if !left_out.is_empty() {
        println!("\n{}", left_out::summary(&left_out));
        counts.left_out = left_out.len() as u64;
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

    /// Complete command line: all packages, unless `extra` names some.
    fn command_line(self, extra: &[String]) -> Vec<String> {
        let names_packages = extra.iter().any(|word| word.starts_with("-p") || word.starts_with("--package"));
        let all = if names_packages { None } else { Some("--workspace") };
        let words = self.words().iter().copied().chain(all).map(str::to_owned);
        words.chain(extra.iter().cloned()).collect()
    }

    /// Command line for only these tests among those that `extra` selects.
    fn command_line_for<'a>(self, extra: &[String], tests: impl Iterator<Item = &'a String>) -> Vec<String> {
        // A second filter expression would add tests instead of leaving some out.
        let has_expression =
            |word: &String| word == "--" || word.starts_with("-E") || word.starts_with("--filter");
        let extra = if extra.iter().any(has_expression) { &[] } else { extra };
        let mut words = self.command_line(extra);
        match self {
            Runner::Nextest => {
                let tests: Vec<String> = tests.map(|test| format!("test(={test})")).collect();
                words.extend(["-E".to_owned(), tests.join(" | ")]);
            }
            Runner::CargoTest | Runner::Doctest => {
                words.extend(["--".to_owned(), "--exact".to_owned()]);
                words.extend(tests.cloned());
            }
        }
        words
    }
}

/// Data that all tests of one run share.
struct Suite<'a> {
    root: &'a Root,
    binary: PathBuf,
    /// Further variables.
    variables: &'a [(&'static str, &'a Path)],
    reports: Reports,
}

impl Suite<'_> {
    /// Cargo command with the variables by which tests find programs and packages.
    fn command(&self, words: &[String]) -> Command {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut tests = self.root.cargo(&words);
        tests.env(BINARY, &self.binary).envs(self.variables.iter().copied());
        tests.envs(python::with_packages(self.root));
        tests.envs(conformance::with_suite(self.root));
        tests.envs(node::with_packages(self.root));
        tests.envs(clients::with_sdks(self.root));
        tests.envs(nats::with_server(self.root));
        tests.env(programs::VARIABLE, programs::prepare(self.root));
        tests.env(left_out::VARIABLE, self.reports.path());
        tests
    }
}

fn watch(tests: &mut Command, counts: &mut Counts) -> Result<Ended> {
    process::watch(tests, |line| *counts += counts_in(line))
}

/// Parses a summary line of nextest or of cargo test; any other line counts as zero.
fn counts_in(line: &str) -> Counts {
    let nextest = line.trim().strip_prefix("Summary [").and_then(|rest| rest.split_once(" run: "));
    // An indented line is the output of a failed test that nextest shows and has counted itself.
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

/// Removes remarks in brackets: `17 passed (1 slow, 2 leaky), 1 failed` would count the slow ones twice.
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

/// Returns true if the documentation of a crate contains code that rustdoc would run.
fn has_doctests(tree: &Tree) -> bool {
    tree.ending(".rs").any(|file| file.path.starts_with("crates/") && rust_source::has_doctest(&file.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, passed: u64, failed: u64) {
        assert_eq!(counts_in(line), Counts { passed, failed, left_out: 0 }, "{line}");
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
    fn tests_left_out_by_an_ordinary_user_are_selected_by_name() {
        let line = |runner: Runner, extra: &[&str]| {
            let extra: Vec<String> = extra.iter().map(|word| (*word).to_owned()).collect();
            runner.command_line_for(&extra, ["a::b".to_owned(), "c".to_owned()].iter()).join(" ")
        };
        let nextest = "nextest run --no-fail-fast";
        assert_eq!(line(Runner::Nextest, &[]), format!("{nextest} --workspace -E test(=a::b) | test(=c)"));
        assert_eq!(line(Runner::Nextest, &["-p", "x"]), format!("{nextest} -p x -E test(=a::b) | test(=c)"));
        assert_eq!(line(Runner::Nextest, &["-E", "all()"]), line(Runner::Nextest, &[]));
        assert!(line(Runner::CargoTest, &[]).ends_with("--workspace -- --exact a::b c"));
    }

    #[test]
    fn a_run_without_tests_fails() {
        let (none, good) = (Counts::default(), Counts { passed: 2, ..Counts::default() });
        assert!(verdict(good, Ended::Well).is_ok());
        assert_eq!(verdict(none, Ended::Well).unwrap_err().to_string(), "no test ran");
        assert!(verdict(good, Ended::Badly).is_err());
        let bad = Counts { passed: 1, failed: 2, left_out: 0 };
        assert_eq!(verdict(bad, Ended::Badly).unwrap_err().to_string(), "2 failing; their names are above");
    }

    #[test]
    fn doctests_are_searched_in_the_crates_only() {
        let documented = "/// ```\n/// let x = 1;\n/// ```\npub fn f() {}\n";
        assert!(has_doctests(&Tree::of(&[("crates/a/src/lib.rs", documented)])));
        assert!(!has_doctests(&Tree::of(&[("xtask/src/main.rs", documented)])));
        assert!(!has_doctests(&Tree::of(&[("crates/a/src/lib.rs", "//! ```text\n//! a → b\n//! ```\n")])));
    }
}
