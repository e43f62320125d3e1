//! Campaigns that are tests or examples of one crate. They run to their count, whatever the duration.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::project::{self, Profile};

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

/// Judges random calls with and without random project policies, and compares what sandboxed programs may access.
pub(crate) fn projects(session: &Session<'_>) -> Result<Summary> {
    let (count, seed) = (session.count.to_string(), session.seed.to_string());
    let arguments = ["-p", "governance", "--lib", "project_policy_never_loosens", "--", "--nocapture"];
    run(session, &arguments, &[("SINEW_PROJECT_CALLS", &count), ("SINEW_PROJECT_SEED", &seed)])?;
    Ok(Summary {
        figure: session.count,
        notes: "in five modes, with what their programs may access".to_owned(),
    })
}

/// Merges random layers in both groupings.
pub(crate) fn merging(session: &Session<'_>) -> Result<Summary> {
    let (count, seed) = (session.count.to_string(), session.seed.to_string());
    let arguments = ["-p", "strict_yaml", "--lib", "merging_layers_is_associative", "--", "--nocapture"];
    run(session, &arguments, &[("SINEW_LAYER_TRIPLES", &count), ("SINEW_LAYER_SEED", &seed)])?;
    Ok(Summary { figure: session.count, notes: String::new() })
}

/// Runs the tests of `file_access` by name and with the handles of macOS, and the tests of file tools and of races
/// against a daemon without `openat2`. The figure counts the tests that passed.
pub(crate) fn by_name(session: &Session<'_>) -> Result<Summary> {
    let binary = project::build_binary(session.root, session.profile)?;
    let (minutes, seed) = (session.minutes.to_string(), session.seed.to_string());
    let crate_tests = ["-p", "file_access", "--lib", "--", "--skip", "crashes::"];
    let suite = ["-p", "tests", "--test", "sinew", "--", "files::", "campaigns::races", "--test-threads=2"];
    let mut passed = 0;
    for (mode, arguments) in
        [("as_macos", &crate_tests[..]), ("by_name", &crate_tests[..]), ("by_name", &suite[..])]
    {
        let mut tests = cargo_test(session);
        tests.args(arguments).env("SINEW_TESTS_OPEN", mode).env("SINEW_BIN", &binary);
        tests.envs([("SINEW_SOAK_MINUTES", &minutes), ("SINEW_SOAK_SEED", &seed)]);
        let ended = process::watch(&mut tests, |line| passed += passed_in(line))?;
        if ended == process::Ended::Badly {
            bail!("the output above shows the tests that failed with `{mode}`");
        }
    }
    Ok(Summary { figure: passed, notes: format!("{minutes} min of exchanged names among them") })
}

/// Number of passed tests in the last line of a test program.
fn passed_in(line: &str) -> u64 {
    let rest = line.strip_prefix("test result: ok. ").unwrap_or_default();
    rest.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
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
    process::run(cargo_test(session).args(arguments).envs(variables.iter().copied()))
}

fn cargo_test(session: &Session<'_>) -> Command {
    let mut tests = session.root.cargo(&["test"]);
    if session.profile == Profile::Release {
        tests.arg("--release");
    }
    tests
}
