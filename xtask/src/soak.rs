//! `cargo xtask soak`: the long campaigns, on a release build. Not part of ci.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::project::{self, Profile};
use crate::tree::Root;

/// How often the daemon is killed.
const CRASHES: &str = "1000";
/// How many cases the judge and its model are compared on.
const JUDGEMENTS: &str = "100000000";
/// How many things that a human is asked about each campaign of their schedules has.
const SCHEDULES: &str = "100000";
/// How many records are asked questions about.
const RECORDS: &str = "1000000";
/// How long the daemon lives with faults around it.
const MINUTES: u32 = 20;

/// Which campaigns, and how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    minutes: u32,
    which: Which,
}

#[derive(Debug, PartialEq, Eq)]
enum Which {
    All,
    /// Only those that take the minutes they are given: the load and the long life.
    Life,
}

impl Wish {
    /// From the words after `soak`.
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

/// Runs the tests whose names begin with `soak`, each with its full number of rounds, then the deadlines of confined programs,
/// then the judge against its model and approvals under every order of events, then the questions to a ledger of a million records, each of which must be answered within its time.
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

/// Tests of the suite by a part of their name, one campaign at a time: they share the machine, and times are taken.
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

/// A thousand programs that do not want to end, with the machine for themselves: all are answered for a tenth of a second
/// after their deadlines.
fn deadlines(root: &Root) -> Result<()> {
    let words =
        ["test", "--release", "-p", "sandbox", "--test", "walls", "--", "--test-threads=1", "a_hundred_that"];
    process::run(root.cargo(&words).env("SINEW_STRICT_TIMES", "1"))
}

/// Compares the judge with the model of its tests, and every verdict with its explanation. `SINEW_JUDGE_CASES` changes how
/// often, `SINEW_JUDGE_SEED` on what.
fn judge(root: &Root) -> Result<()> {
    let cases = std::env::var("SINEW_JUDGE_CASES").unwrap_or_else(|_| JUDGEMENTS.to_owned());
    let words = ["test", "--release", "-p", "governance", "--lib", "t030", "--", "--nocapture"];
    process::run(root.cargo(&words).env("SINEW_JUDGE_CASES", cases).env("SINEW_JUDGE_EXPLAINED", "1"))
}

/// Takes calls that a human is asked about through orders of events that chance comes up with. `SINEW_APPROVAL_SCHEDULES`
/// changes how many, `SINEW_APPROVAL_SEED` which.
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
    fn words_say_which_and_how_long() {
        check("", Ok((20, Which::All)));
        check("--minutes 3 --life", Ok((3, Which::Life)));
        check("--minutes", Err("`--minutes` needs a number"));
        check("--minutes 0", Err("`0` is no number of minutes"));
        check("--minutes soon", Err("`soon` is no number of minutes"));
        check("now", Err("`soak` takes --minutes N and --life, not `now`"));
    }
}
