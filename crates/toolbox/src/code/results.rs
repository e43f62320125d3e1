//! What became of tests, in one shape, from what each runner says.

use schemars::JsonSchema;
use serde::Serialize;

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) message: String,
    pub(super) output: String,
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

impl Counts {
    pub(super) fn of(cases: &[Case]) -> Counts {
        let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count() as u64;
        Counts {
            total: cases.len() as u64,
            passed: count(Outcome::Passed),
            failed: count(Outcome::Failed),
            errors: count(Outcome::Error),
            skipped: count(Outcome::Skipped),
        }
    }
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

/// Rust's own test harness: a line each test, and below them what those that failed said.
pub(super) fn of_cargo(text: &str) -> Vec<Case> {
    let one = |line: &str| {
        let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        let outcome = match word.split(',').next()?.trim() {
            "ok" => Outcome::Passed,
            "FAILED" => Outcome::Failed,
            "ignored" => Outcome::Skipped,
            _ => return None,
        };
        let output = if outcome == Outcome::Failed { said_by(text, name) } else { String::new() };
        let message = output.lines().find(|line| line.contains("panicked at")).unwrap_or_default().to_owned();
        Some(Case { name: name.to_owned(), outcome, message, output })
    };
    text.lines().filter_map(one).collect()
}

/// `---- NAME stdout ----`, up to the next such line.
fn said_by(text: &str, name: &str) -> String {
    let head = format!("---- {name} stdout ----");
    let after = text.split_once(&head).map_or("", |(_, after)| after);
    let ends = ["\n---- ", "\nfailures:"].iter().filter_map(|end| after.find(end));
    let end = ends.min().unwrap_or(after.len());
    after.get(..end).unwrap_or_default().trim().to_owned()
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
        let cases = of_cargo(text);
        let counts = Counts { total: 3, passed: 1, failed: 1, errors: 0, skipped: 1 };
        assert_eq!(Counts::of(&cases), counts);
        assert_eq!(cases[1].message, "thread 'b' panicked at src/lib.rs:5:9:");
        assert!(cases[1].output.ends_with("left != right"), "{:?}", cases[1].output);
    }

    #[test]
    fn what_should_panic_and_does_not_is_told_with_what_it_said() {
        let text = "test a - should panic ... FAILED\ntest b - should panic ... ok\n\nfailures:\n\n---- a stdout ----\n\
                    note: test did not panic as expected\n\nfailures:\n    a\n";
        let cases = of_cargo(text);
        assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(cases[0].output, "note: test did not panic as expected");
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
