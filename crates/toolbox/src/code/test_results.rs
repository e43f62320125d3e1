//! Parsers for the output of test runners, with a common result type.

use std::collections::{HashMap, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;

use crate::untrusted_text::sanitize;

/// Largest number of failures that are kept; further ones are only counted.
const MAX_FAILURES: usize = 10_000;
/// Bytes kept of the output of one test.
const MAX_TEST_OUTPUT: usize = 4 * 1024;

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestCase {
    pub(super) name: String,
    pub(super) outcome: TestOutcome,
    pub(super) message: String,
    pub(super) output: String,
}

impl TestCase {
    /// Creates a passed test without message or output.
    pub(super) fn passed(name: String) -> TestCase {
        TestCase { name, outcome: TestOutcome::Passed, message: String::new(), output: String::new() }
    }
}

/// Outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestOutcome {
    Passed,
    Failed,
    /// It could not be run.
    Error,
    Skipped,
}

/// Number of tests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct TestCounts {
    /// All tests.
    pub(super) total: u64,
    /// Passed tests.
    pub(super) passed: u64,
    /// Failed tests.
    pub(super) failed: u64,
    /// Tests that could not be run.
    pub(super) errors: u64,
    /// Skipped tests.
    pub(super) skipped: u64,
}

/// Test that did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct FailedTest {
    /// Test name.
    pub(super) name: String,
    /// First line of the failure message.
    pub(super) message: String,
    /// Output of the test; only its end if it is long.
    pub(super) output: String,
}

impl FailedTest {
    /// Sanitizes the texts, which the tests control.
    pub(super) fn sanitized(self) -> FailedTest {
        FailedTest {
            name: sanitize(&self.name),
            message: sanitize(&self.message),
            output: sanitize(&self.output),
        }
    }
}

/// Results of a run: counts of all tests, and the first failures.
#[derive(Debug, Default)]
pub(super) struct TestResults {
    pub(super) counts: TestCounts,
    pub(super) failures: Vec<FailedTest>,
}

impl TestResults {
    pub(super) fn add(&mut self, case: TestCase) {
        let counts = &mut self.counts;
        let count = match case.outcome {
            TestOutcome::Passed => &mut counts.passed,
            TestOutcome::Failed => &mut counts.failed,
            TestOutcome::Error => &mut counts.errors,
            TestOutcome::Skipped => &mut counts.skipped,
        };
        *count += 1;
        counts.total += 1;
        let is_bad = matches!(case.outcome, TestOutcome::Failed | TestOutcome::Error);
        if is_bad && self.failures.len() < MAX_FAILURES {
            self.failures.push(FailedTest {
                name: case.name,
                message: case.message.lines().next().unwrap_or_default().to_owned(),
                output: tail_lines(&case.output, MAX_TEST_OUTPUT),
            });
        }
    }
}

/// Returns the last bytes of a text, starting at a line.
pub(super) fn tail_lines(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let start = (text.len() - max..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let tail = text.get(start..).unwrap_or_default();
    format!("[{start} bytes left out]\n{}", tail.split_once('\n').map_or(tail, |(_, rest)| rest))
}

/// Parses the output of Rust's test harness: one line per test, then the output of those that failed.
pub(super) fn parse_cargo(text: &str) -> TestResults {
    let mut outputs = output_by_test(text);
    let mut found = TestResults::default();
    for (name, outcome) in text.lines().filter_map(parse_harness_line) {
        let test_output =
            outputs.get_mut(name).filter(|_| outcome == TestOutcome::Failed).and_then(VecDeque::pop_front);
        let output = test_output.unwrap_or_default().trim();
        let message = output.lines().find(|line| line.contains("panicked at")).unwrap_or_default();
        let (message, output) = (message.to_owned(), output.to_owned());
        found.add(TestCase { name: name.to_owned(), outcome, message, output });
    }
    found
}

/// Parses `test NAME ... ok`.
fn parse_harness_line(line: &str) -> Option<(&str, TestOutcome)> {
    let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let outcome = match word.split(',').next()?.trim() {
        "ok" => TestOutcome::Passed,
        "FAILED" => TestOutcome::Failed,
        "ignored" => TestOutcome::Skipped,
        _ => return None,
    };
    Some((name, outcome))
}

/// Returns the text below each `---- NAME stdout ----`, up to the next such line. Two test binaries may each
/// have a test of the same name; their outputs are in the order in which they ran.
fn output_by_test(text: &str) -> HashMap<&str, VecDeque<&str>> {
    let mut outputs: HashMap<&str, VecDeque<&str>> = HashMap::new();
    let (mut open, mut at) = (None, 0);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if line.starts_with("---- ") || line.starts_with("failures:") {
            let head =
                line.trim_end().strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
            if let Some((name, start)) = std::mem::replace(&mut open, head.map(|name| (name, end))) {
                outputs.entry(name).or_default().push_back(text.get(start..at).unwrap_or_default());
            }
        }
        at = end;
    }
    if let Some((name, start)) = open {
        outputs.entry(name).or_default().push_back(text.get(start..).unwrap_or_default());
    }
    outputs
}

/// Parses nextest's summary: `Summary [   0.5s] 3 tests run: 2 passed (1 slow), 1 failed, 4 skipped`.
pub(super) fn parse_nextest_summary(text: &str) -> Option<TestCounts> {
    let line = text.lines().rev().find_map(|line| line.trim().strip_prefix("Summary ["))?;
    let (_, list) = line.split_once(" run: ")?;
    let count = |word: &str| {
        let parts = list.split(',').map(|part| part.split(" (").next().unwrap_or_default().trim());
        let found = parts.filter_map(|part| part.strip_suffix(word)?.trim().parse::<u64>().ok()).next();
        found.unwrap_or(0)
    };
    let (passed, skipped) = (count("passed"), count("skipped"));
    let (failed, errors) = (count("failed") + count("timed out"), count("exec failed"));
    Some(TestCounts { total: passed + failed + errors + skipped, passed, failed, errors, skipped })
}

/// Parses the counts that an npm script prints in the format of node's runner, TAP or Jest; otherwise nothing.
pub(super) fn parse_npm_counts(text: &str) -> Option<TestCounts> {
    let node = |word: &str| {
        let lines = text
            .lines()
            .filter_map(|line| line.trim().trim_start_matches(['#', 'ℹ']).trim().strip_prefix(word));
        lines.filter_map(|rest| rest.trim().parse::<u64>().ok()).next_back()
    };
    if let (Some(total), Some(passed), Some(failed)) = (node("tests "), node("pass "), node("fail ")) {
        let skipped = node("skipped ").unwrap_or(0);
        return Some(TestCounts { total, passed, failed, errors: node("cancelled ").unwrap_or(0), skipped });
    }
    // Jest: `Tests:       1 failed, 2 skipped, 3 passed, 6 total`
    let line = text.lines().rev().find_map(|line| line.trim().strip_prefix("Tests:"))?;
    let count = |word: &str| {
        let part = line.split(',').find(|part| part.trim().ends_with(word));
        part.and_then(|part| part.split_whitespace().next()?.parse::<u64>().ok())
    };
    Some(TestCounts {
        total: count("total")?,
        passed: count("passed").unwrap_or(0),
        failed: count("failed").unwrap_or(0),
        errors: 0,
        skipped: count("skipped").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_output_is_parsed() {
        let text = "running 3 tests\ntest a::works ... ok\ntest b ... FAILED\ntest c ... ignored, needs root\n\nfailures:\n\n\
                    ---- b stdout ----\nthread 'b' panicked at src/lib.rs:5:9:\nleft != right\n\n\nfailures:\n    b\n\n\
                    test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let found = parse_cargo(text);
        let counts = TestCounts { total: 3, passed: 1, failed: 1, errors: 0, skipped: 1 };
        assert_eq!(found.counts, counts);
        assert_eq!(found.failures[0].message, "thread 'b' panicked at src/lib.rs:5:9:");
        assert!(found.failures[0].output.ends_with("left != right"), "{:?}", found.failures[0].output);
    }

    #[test]
    fn failed_should_panic_test_has_its_output() {
        let text = "test a - should panic ... FAILED\ntest b - should panic ... ok\n\nfailures:\n\n---- a stdout ----\n\
                    note: test did not panic as expected\n\nfailures:\n    a\n";
        let found = parse_cargo(text);
        assert_eq!((found.counts.failed, found.counts.passed), (1, 1));
        assert_eq!(found.failures[0].name, "a");
        assert_eq!(found.failures[0].output, "note: test did not panic as expected");
    }

    #[test]
    fn tests_of_the_same_name_have_their_own_output() {
        let one = |output: &str| {
            format!("test a ... FAILED\nfailures:\n\n---- a stdout ----\n{output}\n\nfailures:\n    a\n")
        };
        let found = parse_cargo(&(one("first") + &one("second") + "test a ... FAILED\n"));
        let outputs: Vec<_> = found.failures.iter().map(|one| one.output.as_str()).collect();
        assert_eq!(outputs, ["first", "second", ""]);
    }

    /// A quadratic search took hours on this input, and a copy of the output per line more memory than
    /// available.
    #[test]
    fn cargo_output_is_parsed_in_linear_time_and_memory() {
        const TIMES: usize = 100_000;
        let lines: String = (0..TIMES).map(|number| format!("test t{number} ... FAILED\n")).collect();
        let same = "test a ... FAILED\n".repeat(TIMES) + "---- a stdout ----\n" + &"x".repeat(1 << 20);
        for text in [lines, same] {
            let found = parse_cargo(&text);
            assert_eq!((found.counts.failed, found.failures.len()), (TIMES as u64, MAX_FAILURES));
            let kept: usize = found.failures.iter().map(|one| one.output.len()).sum();
            assert!(kept <= text.len(), "{kept} bytes are kept");
        }
    }

    #[test]
    fn tail_of_a_text_begins_with_a_whole_line() {
        assert_eq!(tail_lines("a\nbc\ndef\n", 6), "[3 bytes left out]\ndef\n");
        assert_eq!(tail_lines("abc", 6), "abc");
    }

    #[test]
    fn nextest_summary_is_parsed() {
        let text = "    Starting 9 tests\n     Summary [   0.1s] 5/9 tests run: 2 passed (1 slow, 1 leaky), 1 failed, \
                    1 exec failed, 1 timed out, 4 skipped\nerror: test run failed\n";
        let expect = TestCounts { total: 9, passed: 2, failed: 2, errors: 1, skipped: 4 };
        assert_eq!(parse_nextest_summary(text), Some(expect));
        assert_eq!(parse_nextest_summary("error: could not compile\n"), None);
    }

    #[test]
    fn npm_counts_are_parsed_in_known_formats() {
        let node =
            "✔ a (1ms)\nℹ tests 3\nℹ suites 0\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\n";
        let expect = TestCounts { total: 3, passed: 2, failed: 1, errors: 0, skipped: 0 };
        assert_eq!(parse_npm_counts(node), Some(expect));
        assert_eq!(parse_npm_counts(&node.replace('ℹ', "#")), Some(expect), "TAP");
        let jest = "Test Suites: 1 failed, 1 total\nTests:       1 failed, 2 passed, 3 total\n";
        assert_eq!(parse_npm_counts(jest), Some(expect));
        assert_eq!(parse_npm_counts("all good\n"), None);
    }
}
