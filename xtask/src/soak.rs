//! `cargo xtask soak`: long test campaigns on a release build. Not part of ci.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::project::{self, Profile};
use crate::tree::Root;

/// Number of times the daemon is killed.
const CRASHES: &str = "1000";
/// Number of cases on which the judge is compared with its model.
const JUDGEMENTS: &str = "100000000";
/// Number of test objects in each campaign of approval schedules.
const SCHEDULES: &str = "100000";
/// Number of records in the ledger that is queried.
const RECORDS: &str = "1000000";
/// Default duration of the run with injected faults, in minutes.
const MINUTES: u32 = 20;

/// Selected campaigns and their duration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    minutes: u32,
    which: Which,
}

#[derive(Debug, PartialEq, Eq)]
enum Which {
    All,
    /// Only the campaigns whose duration can be set: load and long life.
    Life,
}

impl Wish {
    /// Parses the arguments of `soak`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut wish = Wish { minutes: MINUTES, which: Which::All };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--life" => wish.which = Which::Life,
                "--minutes" => {
                    let number = words.next().ok_or("`--minutes` needs a number")?;
                    let minutes = number.parse().ok().filter(|minutes| *minutes > 0);
                    wish.minutes = minutes.ok_or_else(|| format!("`{number}` is no number of minutes"))?;
                }
                other => return Err(format!("`soak` takes --minutes N and --life, not `{other}`")),
            }
        }
        Ok(wish)
    }
}

/// Runs the tests whose names begin with `soak`, each with its full number of rounds. Then tests the
/// deadlines of confined programs, the judge against its model, and approvals under random orders of events.
/// At last queries a ledger of a million records; each query has a time limit.
pub(crate) fn command(root: &Root, wish: &Wish) -> Result<()> {
    let binary = project::build_binary(root, Profile::Release)?;
    let minutes = wish.minutes.to_string();
    for campaign in ["load::soak", "long_life::soak"] {
        process::run(suite(root, campaign).env("SINEW_BIN", &binary).env("SINEW_SOAK_MINUTES", &minutes))?;
    }
    if wish.which == Which::Life {
        return Ok(());
    }
    process::run(suite(root, "crashes::soak").env("SINEW_BIN", &binary).env("SINEW_SOAK_CRASHES", CRASHES))?;
    deadlines(root)?;
    judge(root)?;
    approvals(root)?;
    process::run(&mut root.cargo(&[
        "run",
        "--release",
        "-p",
        "ledger",
        "--example",
        "measure",
        "--",
        RECORDS,
    ]))
}

/// Command for the tests with `part` in their name. They run one at a time, because they measure times.
fn suite(root: &Root, part: &str) -> Command {
    root.cargo(&[
        "test",
        "--release",
        "-p",
        "tests",
        "--test",
        "sinew",
        part,
        "--",
        "--nocapture",
        "--test-threads=1",
    ])
}

/// Tests that each of a thousand programs that resist termination is reported within a tenth of a second
/// after its deadline. The tests run one at a time, so the strict time limit applies.
fn deadlines(root: &Root) -> Result<()> {
    let words = [
        "test",
        "--release",
        "-p",
        "sandbox",
        "--test",
        "sandboxed",
        "--",
        "--test-threads=1",
        "a_hundred_that",
    ];
    process::run(root.cargo(&words).env("SINEW_STRICT_TIMES", "1"))
}

/// Compares the judge with the model of its tests, and every verdict with its explanation.
/// `SINEW_JUDGE_CASES` sets the number of cases, `SINEW_JUDGE_SEED` their seed.
fn judge(root: &Root) -> Result<()> {
    let cases = std::env::var("SINEW_JUDGE_CASES").unwrap_or_else(|_| JUDGEMENTS.to_owned());
    let words = [
        "test",
        "--release",
        "-p",
        "governance",
        "--lib",
        "judge_explanation_and_model_agree",
        "--",
        "--nocapture",
    ];
    process::run(root.cargo(&words).env("SINEW_JUDGE_CASES", cases).env("SINEW_JUDGE_EXPLAINED", "1"))
}

/// Runs calls that need approval through random orders of events. `SINEW_APPROVAL_SCHEDULES` sets the number
/// of test objects in each campaign, `SINEW_APPROVAL_SEED` the seed.
fn approvals(root: &Root) -> Result<()> {
    let schedules = std::env::var("SINEW_APPROVAL_SCHEDULES").unwrap_or_else(|_| SCHEDULES.to_owned());
    let words =
        ["test", "--release", "-p", "execution", "--lib", "executed_as_approved", "--", "--nocapture"];
    process::run(root.cargo(&words).env("SINEW_APPROVAL_SCHEDULES", schedules))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Result<(u32, Which), &str>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let wish = expect.map(|(minutes, which)| Wish { minutes, which });
        assert_eq!(Wish::parse(&words), wish.map_err(str::to_owned), "{line}");
    }

    #[test]
    fn arguments_select_campaigns_and_minutes() {
        check("", Ok((20, Which::All)));
        check("--minutes 3 --life", Ok((3, Which::Life)));
        check("--minutes", Err("`--minutes` needs a number"));
        check("--minutes 0", Err("`0` is no number of minutes"));
        check("--minutes soon", Err("`soon` is no number of minutes"));
        check("now", Err("`soak` takes --minutes N and --life, not `now`"));
    }
}
