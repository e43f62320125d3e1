//! Finds failed tests in the output of an npm script, if it uses the format of TAP, node's own reporter or
//! Jest. Other formats are not guessed; their text is still in the shown output.

use std::collections::HashSet;

use super::test_results::{TestCase, TestOutcome, TestResults};

/// Format in which failures are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureFormat {
    /// `not ok 2 - name`, and a block of YAML that ends in `...`.
    Tap,
    /// `✖ name (1.2ms)` below `✖ failing tests:`.
    Node,
    /// `● suite › name`.
    Jest,
}

/// Failure whose output is still being read: its format, the test name, and the start of its output.
type OpenFailure<'t> = (FailureFormat, &'t str, usize);

/// Returns the tests that failed, with their output.
pub(super) fn parse_failures<'t>(text: &'t str) -> TestResults {
    let mut found = TestResults::default();
    // Jest prints every failure twice.
    let mut seen_names: HashSet<&'t str> = HashSet::new();
    let mut close = |open: Option<OpenFailure<'t>>, end: usize| {
        let Some((_, name, start)) = open else { return };
        if seen_names.insert(name) {
            found.add(to_test_case(name, text.get(start..end).unwrap_or_default()));
        }
    };
    let (mut open, mut is_summary, mut at) = (None, false, 0);
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let line = line.trim_end();
        is_summary |= line.ends_with("failing tests:");
        if let Some((form, name)) = parse_headline(line, is_summary) {
            close(open.replace((form, name, end)), start);
        } else if open.is_some_and(|(form, ..)| is_end_of_failure(form, line)) {
            close(open.take(), start);
        }
    }
    close(open, at);
    found
}

fn parse_headline(line: &str, is_summary: bool) -> Option<(FailureFormat, &str)> {
    let line = line.trim();
    if let Some((_, name)) = line.strip_prefix("not ok ").and_then(|rest| rest.split_once(" - ")) {
        let is_expected = name.contains("# TODO") || name.contains("# SKIP");
        return (!is_expected).then_some((FailureFormat::Tap, name));
    }
    if let Some(name) = line.strip_prefix("✖ ").filter(|name| is_summary && !name.ends_with("failing tests:"))
    {
        let name =
            name.rsplit_once(" (").filter(|(_, time)| time.ends_with("ms)")).map_or(name, |(name, _)| name);
        return Some((FailureFormat::Node, name));
    }
    line.strip_prefix("● ").filter(|name| name.contains(" › ")).map(|name| (FailureFormat::Jest, name))
}

fn is_end_of_failure(form: FailureFormat, line: &str) -> bool {
    match form {
        FailureFormat::Tap => line.trim() == "...",
        FailureFormat::Node => line.starts_with("test at "),
        FailureFormat::Jest => {
            line.starts_with("Test Suites:") || line.starts_with("Summary of all failing tests")
        }
    }
}

fn to_test_case(name: &str, body: &str) -> TestCase {
    let lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "---");
    let error =
        lines.clone().find_map(|line| line.strip_prefix("error: ")).filter(|text| !text.starts_with('|'));
    let message = error.map(|text| text.trim_matches('\'')).or_else(|| lines.clone().next());
    TestCase {
        name: name.to_owned(),
        outcome: TestOutcome::Failed,
        message: message.unwrap_or_default().to_owned(),
        output: body.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[(&str, &str)]) {
        let found = parse_failures(text).failures;
        let pairs: Vec<_> = found.iter().map(|case| (case.name.as_str(), case.message.as_str())).collect();
        assert_eq!(pairs, expect, "{text}");
    }

    #[test]
    fn known_formats_are_parsed_and_no_others() {
        let tap = "TAP version 13\nok 1 - good\n  ---\n  ...\nnot ok 2 - bad\n  ---\n  location: 'x.js:2'\n  error: '1 == 2'\n  \
                   stack: |-\n    at x\n  ...\nnot ok 3 - later # TODO\n1..3\n# tests 3\n";
        check(tap, &[("bad", "1 == 2")]);
        assert!(parse_failures(tap).failures[0].output.ends_with("at x"), "without the text that follows");
        let node = "✔ good (0.5ms)\n✖ bad (1.2ms)\n  now\nℹ fail 2\n\n✖ failing tests:\n\ntest at x.js:4:1\n✖ bad (1.2ms)\n  \
                    AssertionError: no\n      at x\n\ntest at x.js:5:1\n✖ worse (2ms)\n  Error: boom\n";
        check(node, &[("bad", "AssertionError: no"), ("worse", "Error: boom")]);
        let jest = "FAIL ./a.test.js\n  ● sums › adds\n\n    expect(received).toBe(expected)\n\n    at a.js\n\nSummary of all failing \
                    tests\n  ● sums › adds\n\n    again\n\nTest Suites: 1 failed, 1 total\nTests: 1 failed, 1 total\n";
        check(jest, &[("sums › adds", "expect(received).toBe(expected)")]);
        check("error: something\n● a bullet\n✖ not in a summary\nnot ok\n", &[]);
    }

    /// A linear search for duplicates took minutes on this input.
    #[test]
    fn many_failures_are_parsed_in_linear_time() {
        const TIMES: usize = 200_000;
        let text: String = (0..TIMES).map(|number| format!("not ok {number} - t{number}\n")).collect();
        assert_eq!(parse_failures(&text).counts.failed, TIMES as u64);
        let twice = text.clone() + &text;
        assert_eq!(parse_failures(&twice).counts.failed, TIMES as u64);
    }
}
