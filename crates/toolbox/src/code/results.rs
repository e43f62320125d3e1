//! What became of tests, in one shape, from what each runner says.

use std::collections::{HashMap, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;

/// Failures that are kept; those after them are counted.
const MOST_FAILED: usize = 10_000;
/// What is kept of what one test said.
const MOST_OF_ONE: usize = 4 * 1024;

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) message: String,
    pub(super) output: String,
}

impl Case {
    /// One of which nothing else is said.
    pub(super) fn passed(name: String) -> Case {
        Case { name, outcome: Outcome::Passed, message: String::new(), output: String::new() }
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// It could not even be tried.
    Error,
    Skipped,
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Counts {
    /// Of all kinds.
    pub(super) total: u64,
    /// Did what they should.
    pub(super) passed: u64,
    /// Did not.
    pub(super) failed: u64,
    /// Could not even be tried.
    pub(super) errors: u64,
    /// Were left out.
    pub(super) skipped: u64,
}

/// A test that did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Failed {
    /// The test.
    pub(super) name: String,
    /// What went wrong, in a line.
    pub(super) message: String,
    /// What it said; the end of it where that is long.
    pub(super) output: String,
}

/// What a run came to: all tests are counted, and of those that did not pass the first are kept.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) counts: Counts,
    pub(super) failed: Vec<Failed>,
}

impl Found {
    pub(super) fn add(&mut self, case: Case) {
        let counts = &mut self.counts;
        let count = match case.outcome {
            Outcome::Passed => &mut counts.passed,
            Outcome::Failed => &mut counts.failed,
            Outcome::Error => &mut counts.errors,
            Outcome::Skipped => &mut counts.skipped,
        };
        *count += 1;
        counts.total += 1;
        let is_bad = matches!(case.outcome, Outcome::Failed | Outcome::Error);
        if is_bad && self.failed.len() < MOST_FAILED {
            self.failed.push(Failed {
                name: case.name,
                message: case.message.lines().next().unwrap_or_default().to_owned(),
                output: ending(&case.output, MOST_OF_ONE),
            });
        }
    }
}

/// The last bytes of a text, from the beginning of a line.
pub(super) fn ending(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let start = (text.len() - most..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let tail = text.get(start..).unwrap_or_default();
    format!("[{start} bytes left out]\n{}", tail.split_once('\n').map_or(tail, |(_, rest)| rest))
}

/// Rust's own test harness: a line each test, and below them what those that failed said.
pub(super) fn of_cargo(text: &str) -> Found {
    let mut said = said(text);
    let mut found = Found::default();
    for (name, outcome) in text.lines().filter_map(harness_line) {
        let heard = said.get_mut(name).filter(|_| outcome == Outcome::Failed).and_then(VecDeque::pop_front);
        let output = heard.unwrap_or_default().trim();
        let message = output.lines().find(|line| line.contains("panicked at")).unwrap_or_default();
        let (message, output) = (message.to_owned(), output.to_owned());
        found.add(Case { name: name.to_owned(), outcome, message, output });
    }
    found
}

/// `test NAME ... ok`
fn harness_line(line: &str) -> Option<(&str, Outcome)> {
    let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let outcome = match word.split(',').next()?.trim() {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Skipped,
        _ => return None,
    };
    Some((name, outcome))
}

/// What stands below each `---- NAME stdout ----`, up to the next such line. Two programs may each have a test of a name:
/// they come in the order in which they ran.
fn said(text: &str) -> HashMap<&str, VecDeque<&str>> {
    let mut said: HashMap<&str, VecDeque<&str>> = HashMap::new();
    let (mut open, mut at) = (None, 0);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if line.starts_with("---- ") || line.starts_with("failures:") {
            let head =
                line.trim_end().strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
            if let Some((name, start)) = std::mem::replace(&mut open, head.map(|name| (name, end))) {
                said.entry(name).or_default().push_back(text.get(start..at).unwrap_or_default());
            }
        }
        at = end;
    }
    if let Some((name, start)) = open {
        said.entry(name).or_default().push_back(text.get(start..).unwrap_or_default());
    }
    said
}

/// Nextest's last words: `Summary [   0.5s] 3 tests run: 2 passed (1 slow), 1 failed, 4 skipped`.
pub(super) fn of_nextest(text: &str) -> Option<Counts> {
    let line = text.lines().rev().find_map(|line| line.trim().strip_prefix("Summary ["))?;
    let (_, list) = line.split_once(" run: ")?;
    let count = |word: &str| {
        let parts = list.split(',').map(|part| part.split(" (").next().unwrap_or_default().trim());
        let found = parts.filter_map(|part| part.strip_suffix(word)?.trim().parse::<u64>().ok()).next();
        found.unwrap_or(0)
    };
    let (passed, skipped) = (count("passed"), count("skipped"));
    let (failed, errors) = (count("failed") + count("timed out"), count("exec failed"));
    Some(Counts { total: passed + failed + errors + skipped, passed, failed, errors, skipped })
}

/// What an npm script says of its counts, where it says it as node's own runner, TAP, Jest or Vitest do. Nothing is guessed.
pub(super) fn of_npm(text: &str) -> Option<Counts> {
    let node = |word: &str| {
        let lines = text
            .lines()
            .filter_map(|line| line.trim().trim_start_matches(['#', 'ℹ']).trim().strip_prefix(word));
        lines.filter_map(|rest| rest.trim().parse::<u64>().ok()).next_back()
    };
    if let (Some(total), Some(passed), Some(failed)) = (node("tests "), node("pass "), node("fail ")) {
        let skipped = node("skipped ").unwrap_or(0);
        return Some(Counts { total, passed, failed, errors: node("cancelled ").unwrap_or(0), skipped });
    }
    // Jest: `Tests:       1 failed, 2 skipped, 3 passed, 6 total`
    let line = text.lines().rev().find_map(|line| line.trim().strip_prefix("Tests:"))?;
    let count = |word: &str| {
        let part = line.split(',').find(|part| part.trim().ends_with(word));
        part.and_then(|part| part.split_whitespace().next()?.parse::<u64>().ok())
    };
    Some(Counts {
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
    fn what_cargo_says_is_read() {
        let text = "running 3 tests\ntest a::works ... ok\ntest b ... FAILED\ntest c ... ignored, needs root\n\nfailures:\n\n\
                    ---- b stdout ----\nthread 'b' panicked at src/lib.rs:5:9:\nleft != right\n\n\nfailures:\n    b\n\n\
                    test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let found = of_cargo(text);
        let counts = Counts { total: 3, passed: 1, failed: 1, errors: 0, skipped: 1 };
        assert_eq!(found.counts, counts);
        assert_eq!(found.failed[0].message, "thread 'b' panicked at src/lib.rs:5:9:");
        assert!(found.failed[0].output.ends_with("left != right"), "{:?}", found.failed[0].output);
    }

    #[test]
    fn what_should_panic_and_does_not_is_told_with_what_it_said() {
        let text = "test a - should panic ... FAILED\ntest b - should panic ... ok\n\nfailures:\n\n---- a stdout ----\n\
                    note: test did not panic as expected\n\nfailures:\n    a\n";
        let found = of_cargo(text);
        assert_eq!((found.counts.failed, found.counts.passed), (1, 1));
        assert_eq!(found.failed[0].name, "a");
        assert_eq!(found.failed[0].output, "note: test did not panic as expected");
    }

    #[test]
    fn tests_of_one_name_are_told_with_what_each_said() {
        let one = |said: &str| {
            format!("test a ... FAILED\nfailures:\n\n---- a stdout ----\n{said}\n\nfailures:\n    a\n")
        };
        let found = of_cargo(&(one("first") + &one("second") + "test a ... FAILED\n"));
        let said: Vec<_> = found.failed.iter().map(|one| one.output.as_str()).collect();
        assert_eq!(said, ["first", "second", ""]);
    }

    /// By the square of its length, this took hours, and a copy of what is said for each line that names it more memory than
    /// there is.
    #[test]
    fn what_cargo_says_takes_no_more_than_its_length() {
        const TIMES: usize = 100_000;
        let lines: String = (0..TIMES).map(|number| format!("test t{number} ... FAILED\n")).collect();
        let same = "test a ... FAILED\n".repeat(TIMES) + "---- a stdout ----\n" + &"x".repeat(1 << 20);
        for text in [lines, same] {
            let found = of_cargo(&text);
            assert_eq!((found.counts.failed, found.failed.len()), (TIMES as u64, MOST_FAILED));
            let kept: usize = found.failed.iter().map(|one| one.output.len()).sum();
            assert!(kept <= text.len(), "{kept} bytes are kept");
        }
    }

    #[test]
    fn the_end_of_a_text_begins_with_a_line() {
        assert_eq!(ending("a\nbc\ndef\n", 6), "[3 bytes left out]\ndef\n");
        assert_eq!(ending("abc", 6), "abc");
    }

    #[test]
    fn the_last_words_of_nextest_are_read() {
        let text = "    Starting 9 tests\n     Summary [   0.1s] 5/9 tests run: 2 passed (1 slow, 1 leaky), 1 failed, \
                    1 exec failed, 1 timed out, 4 skipped\nerror: test run failed\n";
        let expect = Counts { total: 9, passed: 2, failed: 2, errors: 1, skipped: 4 };
        assert_eq!(of_nextest(text), Some(expect));
        assert_eq!(of_nextest("error: could not compile\n"), None);
    }

    #[test]
    fn what_npm_scripts_say_is_read_where_it_is_said() {
        let node =
            "✔ a (1ms)\nℹ tests 3\nℹ suites 0\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 0\nℹ todo 0\n";
        let expect = Counts { total: 3, passed: 2, failed: 1, errors: 0, skipped: 0 };
        assert_eq!(of_npm(node), Some(expect));
        assert_eq!(of_npm(&node.replace('ℹ', "#")), Some(expect), "TAP");
        let jest = "Test Suites: 1 failed, 1 total\nTests:       1 failed, 2 passed, 3 total\n";
        assert_eq!(of_npm(jest), Some(expect));
        assert_eq!(of_npm("all good\n"), None);
    }
}
