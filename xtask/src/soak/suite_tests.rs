//! Campaigns that are tests of the suite: the real binary, started by the test. The variables by which the
//! test finds its settings are those of `tests/src/campaign.rs`.

use anyhow::{Context, Result, bail};

use crate::process::{self, Ended};
use crate::project::{self, Profile};

use super::campaign::Session;
use super::summary::Summary;

/// Runs the tests with `part` in their name, one at a time, because some measure times. Returns the summary
/// that one of them prints.
pub(crate) fn run(session: &Session<'_>, part: &str) -> Result<Summary> {
    let root = session.root;
    let binary = project::build_binary(root, session.profile)?;
    let mut arguments = vec!["test", "-p", "tests", "--test", "sinew"];
    if session.profile == Profile::Release {
        arguments.push("--release");
    }
    arguments.extend([part, "--", "--nocapture", "--test-threads=1"]);
    let mut tests = root.cargo(&arguments);
    tests.env("SINEW_BIN", binary);
    tests.env("SINEW_SOAK_SEED", session.seed.to_string());
    tests.env("SINEW_SOAK_MINUTES", session.minutes.to_string());
    tests.env("SINEW_SOAK_COUNT", session.count.to_string());
    let mut found = None;
    let ended = process::watch(&mut tests, |line| found = Summary::in_line(line).or(found.take()))?;
    if ended == Ended::Badly {
        bail!("the output above shows the exception");
    }
    found.with_context(|| format!("no test with `{part}` in its name reported a summary"))
}
