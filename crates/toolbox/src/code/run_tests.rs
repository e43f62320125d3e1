//! `run_tests`: runs a project's tests in the sandbox. They are code of the project, so they can access only
//! what the call was granted: no network, no secrets, and no process survives the call.

use std::ffi::OsString;

use governance::Permit;
use registry::Preview;
use sandbox::{Command, Grant, Report, Sandbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, FailureKind, Mode, Output, RiskLevel, ToolSpec, Truncation};

use super::aside::{self, Aside};
use super::git::RepoPath;
use super::junit;
use super::results::{self, Counts, Failed, Found};
use super::toolchain::{self, Project, ProjectProgram, Selected, Tooling};
use super::{outcome, script_failures};
use crate::in_walls::{InWalls, Walls, Work};
use crate::room;
use crate::tool_entry::{Answer, FolderArg, ToolEntry};

/// Bytes captured of the report and of the output. Of a report, only the half from the start is parsed.
const MOST_REPORT: usize = 2 * 4 * 1024 * 1024;
/// Bytes shown of the output.
const MOST_SAID: usize = 32 * 1024;

/// Runs the arguments with their output redirected to stderr, so that stdout contains only the report, and
/// keeps the exit code. Nextest writes a report only if a configuration file enables it.
const SCRIPT: &str = r#"printf '[profile.default.junit]\npath = "/tmp/sinew-report.xml"\n' > /tmp/sinew-nextest.toml
"$@" >&2; code=$?
cat /tmp/sinew-report.xml 2>/dev/null
exit $code"#;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Project directory, absolute or relative to the workspace.
    #[serde(default, rename = "path")]
    _path: FolderArg,
    /// Test runner. `auto` uses nextest if there are Cargo.toml and .config/nextest.toml, cargo if there is a
    /// Cargo.toml, npm if there is a package.json, otherwise pytest.
    #[serde(default)]
    runner: Runner,
    /// Tests to run: files, directories or node ids for pytest; parts of test names for cargo and nextest.
    #[serde(default)]
    #[schemars(length(max = 100))]
    tests: Vec<RepoPath>,
    /// Stop after this many failures; 0 means never. Used by pytest and nextest.
    #[serde(default)]
    #[schemars(range(max = 10_000))]
    max_failures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Runner {
    #[default]
    Auto,
    Pytest,
    Cargo,
    Nextest,
    Npm,
}

#[derive(Serialize, JsonSchema)]
struct Tested {
    /// Test runner that ran.
    program: Tooling,
    /// `passed`, `failed`, `no_tests`, or `error` if the tests could not be run completely.
    outcome: &'static str,
    /// Exit code of the runner.
    exit_code: i32,
    /// Number of tests by outcome; null if the runner does not report it.
    counts: Option<Counts>,
    /// Tests that did not pass.
    failures: Vec<Failed>,
    /// End of the output.
    said: String,
    /// Files created by the tests that other programs would execute or load, such as git hooks, and where
    /// they were moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<Aside>,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolEntry {
    let about = "Run a project's tests (pytest, cargo test, cargo nextest or npm test) in a sandbox without network, and list \
                 the failures.";
    let mut spec = ToolSpec::new("run_tests", about, Category::SYSTEM_WRITE, RiskLevel::Medium);
    spec.allowed_modes = vec![Mode::Normal];
    spec.requires_sandbox = true;
    spec.timeout_seconds = 600;
    spec.annotations = Annotations::default();
    spec.example = Some(json!({"path": ".", "runner": "pytest"}));
    ToolEntry::sandboxed(spec, InWalls::new(sandbox, test).foretold(foresee))
}

fn foresee(permit: &Permit, arguments: &Arguments) -> Result<Preview, Failure> {
    toolchain::preview(permit, arguments.runner, |runner| words(runner, arguments))
}

impl ProjectProgram for Runner {
    fn in_project(self, project: &Project) -> Runner {
        match self {
            Runner::Auto if project.has("Cargo.toml") && project.has(".config/nextest.toml") => {
                Runner::Nextest
            }
            Runner::Auto if project.has("Cargo.toml") => Runner::Cargo,
            Runner::Auto if project.has("package.json") => Runner::Npm,
            Runner::Auto => Runner::Pytest,
            named => named,
        }
    }

    fn executable(self) -> &'static str {
        match self {
            Runner::Cargo | Runner::Nextest => "cargo",
            Runner::Npm => "npm",
            Runner::Auto | Runner::Pytest => "pytest",
        }
    }

    fn subcommand(self) -> Option<&'static str> {
        (self == Runner::Nextest).then_some("nextest")
    }

    fn settings(self) -> Option<&'static str> {
        match self {
            Runner::Cargo | Runner::Nextest => Some("Cargo.toml"),
            Runner::Npm => Some("package.json"),
            Runner::Auto | Runner::Pytest => None,
        }
    }
}

fn test<'a>(session: &'a mut Walls, arguments: &'a Arguments) -> Work<'a, Tested> {
    Box::pin(async move {
        let selected = Selected::find(session, arguments.runner).await?;
        session.tell(format!("{} {}: running the tests", selected.tooling.name, selected.tooling.version));
        let words = words(selected.program, arguments)?;
        let launcher = ("sh", ["-c", SCRIPT, "sh"].as_slice());
        let command = selected.command(launcher, words, (MOST_REPORT, session.deadline));
        let report = session.run_aloud(Command { grant: Grant::AsPermitted, ..command }).await?;
        let files_touched = aside::touched(&report.quarantined);
        let Selected { program: runner, tooling, .. } = selected;
        let (value, truncated) = session.read(move |permit| read(runner, tooling, &report, permit)).await??;
        session.tell(format!("the tests have finished: {}", value.outcome));
        Ok(Answer { value, facts: Output { truncated, files_touched, ..Output::default() } })
    })
}

/// Builds the arguments. Values of the caller follow `--`, so that none can be parsed as an option.
fn words(runner: Runner, arguments: &Arguments) -> Result<Vec<OsString>, Failure> {
    let mut words: Vec<OsString> = match runner {
        Runner::Cargo => {
            ["test", "--offline", "--no-fail-fast", "--color=never"].map(OsString::from).to_vec()
        }
        Runner::Nextest => nextest_words(arguments.max_failures),
        Runner::Npm => vec!["test".into()],
        Runner::Auto | Runner::Pytest => {
            let mut words: Vec<OsString> = [
                "-q",
                "-ra",
                "--color=no",
                "-p",
                "no:cacheprovider",
                "-o",
                "junit_family=xunit2",
                "--junitxml=/tmp/sinew-report.xml",
            ]
            .map(OsString::from)
            .to_vec();
            if arguments.max_failures > 0 {
                words.push(format!("--maxfail={}", arguments.max_failures).into());
            }
            words
        }
    };
    if !arguments.tests.is_empty() {
        words.push("--".into());
    }
    for test in &arguments.tests {
        words.push(test.plain()?);
    }
    Ok(words)
}

fn nextest_words(max_failures: u32) -> Vec<OsString> {
    let fixed = ["nextest", "run", "--offline", "--color=never", "--hide-progress-bar"];
    let report = ["--tool-config-file", "sinew:/tmp/sinew-nextest.toml"];
    let stop = match max_failures {
        0 => "--no-fail-fast".to_owned(),
        most => format!("--max-fail={most}"),
    };
    fixed.into_iter().chain(report).map(OsString::from).chain([stop.into()]).collect()
}

/// Parses the results and reports what was omitted.
fn read(
    runner: Runner,
    program: Tooling,
    report: &Report,
    permit: &Permit,
) -> Result<(Tested, Option<Truncation>), Failure> {
    let said = String::from_utf8_lossy(&report.stderr.head).into_owned()
        + &String::from_utf8_lossy(&report.stderr.tail);
    let exit_code = report.end.exit_code();
    let (counts, found) = counted(runner, &said, &String::from_utf8_lossy(&report.stdout.head));
    let word = verdict(runner, exit_code, counts);
    if word == "error" && counts.is_none_or(|counts| counts.total == 0) {
        let why = toolchain::reason(&said);
        let hint = "the project may need a dependency that is not installed; tests run without network";
        let failure =
            Failure::new(FailureKind::Unreadable, format!("the tests did not run: {why}")).hint(hint);
        return Err(outcome(failure, "tests_not_run"));
    }
    let total = found.counts.failed + found.counts.errors;
    let failures = room::first(found.failed, room::for_content(permit) / 2);
    let left_out = match runner {
        Runner::Cargo | Runner::Npm => report.stderr.omitted,
        Runner::Nextest | Runner::Auto | Runner::Pytest => report.stdout.omitted,
    };
    let truncated = cut(total, failures.len(), left_out);
    let (said, quarantined) = (results::ending(&said, MOST_SAID), aside::list(&report.quarantined));
    let value = Tested { program, outcome: word, exit_code, counts, failures, said, quarantined };
    Ok((value, truncated))
}

/// Returns the counts that the runner reports, and the tests that failed.
fn counted(runner: Runner, said: &str, report: &str) -> (Option<Counts>, Found) {
    let found = match runner {
        Runner::Cargo => results::of_cargo(said),
        Runner::Npm => script_failures::failures(said),
        Runner::Nextest | Runner::Auto | Runner::Pytest => junit::cases(report),
    };
    let counts = match runner {
        Runner::Npm => results::of_npm(said),
        // A project that configures another report path still prints its counts.
        Runner::Nextest if found.counts.total == 0 => results::of_nextest(said),
        _ => Some(found.counts),
    };
    (counts, found)
}

/// Describes the truncation if failures were omitted or the report exceeded its limit.
fn cut(total: u64, returned: usize, left_out: u64) -> Option<Truncation> {
    let report = match left_out {
        0 => String::new(),
        bytes => format!("{bytes} bytes of the report were not parsed, so the counts are too low: "),
    };
    let how = format!("{report}run some of `tests`, or set max_failures");
    room::truncation(returned, total, left_out > 0, &how)
}

/// Returns the outcome of a run. pytest exits with 5 if it found no tests, and with other codes above 1 if it
/// could not run them. cargo exits with 101 for a failure and for a compile error; nextest exits with 100 for
/// a failure and 4 for no tests.
fn verdict(runner: Runner, exit_code: i32, counts: Option<Counts>) -> &'static str {
    let none = counts.is_some_and(|counts| counts.total == 0);
    let bad = counts.is_some_and(|counts| counts.failed + counts.errors > 0);
    match (runner, exit_code) {
        (Runner::Pytest | Runner::Auto, 5) | (Runner::Nextest, 4) => "no_tests",
        (_, 0) if none => "no_tests",
        (_, 0) => "passed",
        (Runner::Pytest | Runner::Auto, 1) => "failed",
        (Runner::Cargo, 101) if bad => "failed",
        (Runner::Nextest, 100) => "failed",
        (Runner::Npm, 1..) => "failed",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_an_outcome() {
        let counts =
            |passed, failed| Some(Counts { total: passed + failed, passed, failed, ..Counts::default() });
        for (runner, code, counts, expect) in [
            (Runner::Pytest, 0, counts(2, 0), "passed"),
            (Runner::Pytest, 1, counts(1, 1), "failed"),
            (Runner::Pytest, 2, counts(0, 0), "error"),
            (Runner::Pytest, 4, counts(0, 0), "error"),
            (Runner::Pytest, 5, counts(0, 0), "no_tests"),
            (Runner::Cargo, 0, counts(3, 0), "passed"),
            (Runner::Cargo, 0, counts(0, 0), "no_tests"),
            (Runner::Cargo, 101, counts(2, 1), "failed"),
            (Runner::Cargo, 101, counts(0, 0), "error"),
            (Runner::Nextest, 0, counts(3, 0), "passed"),
            (Runner::Nextest, 4, None, "no_tests"),
            (Runner::Nextest, 100, counts(2, 1), "failed"),
            (Runner::Nextest, 101, None, "error"),
            (Runner::Npm, 0, None, "passed"),
            (Runner::Npm, 1, None, "failed"),
            (Runner::Npm, -1, None, "error"),
        ] {
            assert_eq!(verdict(runner, code, counts), expect, "{runner:?} {code} {counts:?}");
        }
    }

    #[test]
    fn omitted_failures_are_reported_as_truncated() {
        assert_eq!(cut(3, 3, 0), None);
        let fields = |cut: Option<Truncation>| cut.map(|cut| (cut.total, cut.returned, cut.how_to_continue));
        let (total, returned, words) = fields(cut(3, 1, 0)).unwrap();
        assert_eq!((total, returned, words.as_str()), (3, 1, "run some of `tests`, or set max_failures"));
        let (.., words) = fields(cut(1, 1, 70)).unwrap();
        assert!(words.starts_with("70 bytes of the report were not parsed"), "{words}");
    }
}
