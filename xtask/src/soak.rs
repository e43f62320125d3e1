//! `cargo xtask soak`: long test campaigns on a release build. Not part of ci.

use std::num::NonZeroU32;
use std::process::Command;

use anyhow::Result;
use clap::Args;

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

/// Options of the campaigns.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct SoakOptions {
    /// Duration of the run with injected faults, in minutes
    #[arg(long, value_name = "N", default_value = "20")]
    minutes: NonZeroU32,
    /// Run only the campaigns whose duration can be set: load and long life
    #[arg(long)]
    life: bool,
}

/// Runs the tests whose names begin with `soak`, each with its full number of rounds. Then tests the
/// deadlines of confined programs, the judge against its model, and approvals under random orders of events.
/// At last queries a ledger of a million records; each query has a time limit.
pub(crate) fn command(root: &Root, options: &SoakOptions) -> Result<()> {
    let binary = project::build_binary(root, Profile::Release)?;
    let minutes = options.minutes.to_string();
    for campaign in ["load::soak", "long_life::soak"] {
        process::run(suite(root, campaign).env("SINEW_BIN", &binary).env("SINEW_SOAK_MINUTES", &minutes))?;
    }
    if options.life {
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
