//! Campaigns that are tests or examples of one crate. They run to their count, whatever the duration.

use anyhow::Result;

use crate::process;
use crate::project::Profile;

use super::campaign::Session;
use super::summary::Summary;

/// Tests that each of a thousand programs that resist termination is reported within a tenth of a second
/// after its deadline. The tests run one at a time, so the strict time limit applies.
pub(crate) fn deadlines(session: &Session<'_>) -> Result<Summary> {
    let arguments = ["-p", "sandbox", "--test", "sandboxed", "--", "--test-threads=1", "a_hundred_that"];
    run(session, &arguments, &[("SINEW_STRICT_TIMES", "1")])?;
    Ok(Summary { figure: 1_000, notes: "eight kinds of resistance".to_owned() })
}

/// Compares the judge with the model of its tests, and every verdict with its explanation.
pub(crate) fn judge(session: &Session<'_>) -> Result<Summary> {
    let (cases, seed) = (session.count.to_string(), session.seed.to_string());
    let arguments = ["-p", "governance", "--lib", "judge_explanation_and_model_agree", "--", "--nocapture"];
    let variables =
        [("SINEW_JUDGE_CASES", &*cases), ("SINEW_JUDGE_SEED", &*seed), ("SINEW_JUDGE_EXPLAINED", "1")];
    run(session, &arguments, &variables)?;
    Ok(Summary { figure: session.count, notes: "each with its explanation".to_owned() })
}

/// Compares the prover with exhaustive judgement on random policies, and the differences that it finds with the
/// comparison of rules.
pub(crate) fn prover(session: &Session<'_>) -> Result<Summary> {
    let (count, seed) = (session.count.to_string(), session.seed.to_string());
    let variables = [("SINEW_PROVE_POLICIES", &*count), ("SINEW_PROVE_SEED", &*seed)];
    let arguments = ["-p", "policy_tools", "--lib", "prover_equals", "--", "--nocapture"];
    run(session, &arguments, &variables)?;
    Ok(Summary { figure: session.count, notes: "each with a question in two modes".to_owned() })
}

/// Judges random calls by the shipped policy with its sets and layers, and by the file that shipped before.
pub(crate) fn layers(session: &Session<'_>) -> Result<Summary> {
    let count = session.count.to_string();
    let arguments = ["-p", "governance", "--lib", "sets_do_not_change_any_verdict", "--", "--nocapture"];
    run(session, &arguments, &[("SINEW_POLICY_CALLS", &*count)])?;
    Ok(Summary { figure: session.count, notes: String::new() })
}

/// Runs calls that need approval through random orders of events.
pub(crate) fn schedules(session: &Session<'_>) -> Result<Summary> {
    let (count, seed) = (session.count.to_string(), session.seed.to_string());
    let arguments = ["-p", "execution", "--lib", "executed_as_approved", "--", "--nocapture"];
    run(session, &arguments, &[("SINEW_APPROVAL_SCHEDULES", &count), ("SINEW_APPROVAL_SEED", &seed)])?;
    Ok(Summary { figure: session.count, notes: String::new() })
}

/// Queries a ledger of a million records; each query has a time limit.
pub(crate) fn queries(session: &Session<'_>) -> Result<Summary> {
    let count = session.count.to_string();
    let mut example = session.root.cargo(&["run"]);
    if session.profile == Profile::Release {
        example.arg("--release");
    }
    process::run(example.args(["-p", "ledger", "--example", "measure", "--", &count]))?;
    Ok(Summary { figure: session.count, notes: String::new() })
}

fn run(session: &Session<'_>, arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let mut tests = session.root.cargo(&["test"]);
    if session.profile == Profile::Release {
        tests.arg("--release");
    }
    process::run(tests.args(arguments).envs(variables.iter().copied()))
}
