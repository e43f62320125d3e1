//! `cargo xtask ci`: every check that must pass before a change is merged. Stops at the first step that fails
//! and prints how to repeat that step alone.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use crate::process::Ended;
use crate::test::{self, Counts};
use crate::tree::Root;
use crate::{macos, process, tidy};

/// One check, with the name that `--only` takes.
struct Step {
    name: &'static str,
    run: fn(&Root) -> Result<Outcome>,
}

/// Result of a step that could run.
enum Outcome {
    Held,
    Skipped(&'static str),
    Tested(Counts, Ended),
}

const STEPS: &[Step] = &[
    Step { name: "fmt", run: fmt },
    Step { name: "clippy", run: clippy },
    Step { name: "tidy", run: |root| tidy::command(root).map(|()| Outcome::Held) },
    Step {
        name: "test",
        run: |root| test::run(root, &[], &[]).map(|(counts, ended)| Outcome::Tested(counts, ended)),
    },
    Step { name: "doc", run: doc },
    Step { name: "deny", run: deny },
    Step { name: "macos", run: |root| macos::check(root).map(|()| Outcome::Held) },
];

/// Names of the steps, for `--only`.
pub(crate) fn step_names() -> PossibleValuesParser {
    STEPS.iter().map(|step| step.name).collect::<Vec<_>>().into()
}

/// Runs the selected steps. The last line has the counts of the tests, if they ran, also after a failure.
pub(crate) fn command(root: &Root, only: Option<&str>) -> Result<()> {
    let mut report = Report::default();
    for step in STEPS.iter().filter(|step| only.is_none_or(|only| only == step.name)) {
        println!("\n== {}", step.name);
        let started = Instant::now();
        let outcome = (step.run)(root);
        report.add(step.name, outcome, started.elapsed());
        if report.failure.is_some() {
            break;
        }
    }
    println!("\n{}", report.rows.join("\n"));
    let last = report.counts.map(|counts| format!("\n\n{counts}")).unwrap_or_default();
    if let Some((name, error)) = report.failure {
        bail!("{error:#}\nstep `{name}` failed; repeat it alone with: cargo xtask ci --only {name}{last}");
    }
    println!("all held{last}");
    Ok(())
}

/// Results of the steps so far.
#[derive(Default)]
struct Report {
    rows: Vec<String>,
    counts: Option<Counts>,
    failure: Option<(&'static str, anyhow::Error)>,
}

impl Report {
    fn add(&mut self, name: &'static str, outcome: Result<Outcome>, took: Duration) {
        let (result, failure) = match outcome {
            Ok(Outcome::Held) => ("ok".to_owned(), None),
            Ok(Outcome::Skipped(why)) => (format!("skipped: {why}"), None),
            Ok(Outcome::Tested(counts, ended)) => {
                self.counts = Some(counts);
                let left_out = match counts.left_out {
                    0 => String::new(),
                    count => format!(" (LEFT OUT, whole or in part: {count}; their names are above)"),
                };
                (format!("{counts}{left_out}"), test::verdict(counts, ended).err())
            }
            Err(error) => ("failed".to_owned(), Some(error)),
        };
        self.rows.push(row(name, &result, took));
        println!("== {name}: {result} in {}", seconds(took));
        self.failure = failure.map(|error| (name, error));
    }
}

fn row(name: &str, result: &str, took: Duration) -> String {
    format!("{name:<8}{:>9}  {result}", seconds(took))
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn fmt(root: &Root) -> Result<Outcome> {
    process::run(&mut root.cargo(&["fmt", "--all", "--check"]))?;
    Ok(Outcome::Held)
}

fn clippy(root: &Root) -> Result<Outcome> {
    process::run(&mut root.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Outcome::Held)
}

fn doc(root: &Root) -> Result<Outcome> {
    process::run(root.cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Held)
}

/// Checks licences, sources and banned names of dependencies. Advisories need a fetched database, so not
/// here.
fn deny(root: &Root) -> Result<Outcome> {
    if !process::works(&mut root.cargo(&["deny", "--version"])) {
        return Ok(Outcome::Skipped("cargo-deny is not installed"));
    }
    process::run(&mut root.cargo(&["deny", "--log-level", "error", "check", "bans", "licenses", "sources"]))?;
    Ok(Outcome::Held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Result<Outcome>) -> Report {
        let mut report = Report::default();
        report.add("step", outcome, Duration::from_millis(1500));
        report
    }

    #[test]
    fn a_step_that_passed_or_was_skipped_is_no_failure() {
        let held = report(Ok(Outcome::Held));
        assert!(held.failure.is_none() && held.rows == ["step        1.5 s  ok"], "{:?}", held.rows);
        assert!(report(Ok(Outcome::Skipped("why"))).failure.is_none());
        assert!(report(Err(anyhow::anyhow!("broken"))).failure.is_some());
    }

    #[test]
    fn failing_tests_stop_the_run_and_keep_their_numbers() {
        let (good, bad) =
            (Counts { passed: 3, ..Counts::default() }, Counts { passed: 3, failed: 1, left_out: 2 });
        assert!(report(Ok(Outcome::Tested(good, Ended::Well))).failure.is_none());
        let failed = report(Ok(Outcome::Tested(bad, Ended::Badly)));
        assert!(failed.failure.is_some() && failed.counts == Some(bad));
        assert!(failed.rows[0].contains("LEFT OUT, whole or in part: 2"), "{:?}", failed.rows);
        assert!(report(Ok(Outcome::Tested(Counts::default(), Ended::Well))).failure.is_some(), "nothing ran");
    }
}
