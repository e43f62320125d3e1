//! `cargo xtask soak`: the long campaigns, on a release build. Not part of ci.

use anyhow::Result;

use crate::process;
use crate::project::{self, Profile};
use crate::tree::Root;

/// How often the daemon is killed.
const CRASHES: &str = "1000";
/// How many cases the judge and its model are compared on.
const JUDGEMENTS: &str = "100000000";
/// How many records are asked questions about.
const RECORDS: &str = "1000000";

/// Runs the tests whose names begin with `soak`, each with its full number of rounds, then the deadlines of confined programs,
/// then the judge against its model, then the questions to a ledger of a million records, each of which must be answered within its time.
pub(crate) fn command(root: &Root) -> Result<()> {
    let binary = project::build_binary(root, Profile::Release)?;
    let mut run =
        root.cargo(&["test", "--release", "-p", "tests", "--test", "sinew", "soak", "--", "--nocapture"]);
    process::run(run.env("SINEW_BIN", binary).env("SINEW_SOAK_CRASHES", CRASHES))?;
    deadlines(root)?;
    judge(root)?;
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

/// A thousand programs that do not want to end, with the machine for themselves: nineteen of twenty are answered for a
/// tenth of a second after their deadlines.
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
