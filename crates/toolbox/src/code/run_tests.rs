//! `run_tests`: runs a project's tests in the sandbox. They are code of the project, so they can access only
//! what the call was granted: no network, no secrets, and no process survives the call.

use std::ffi::OsString;

use governance::Permit;
use registry::CallPreview;
use sandbox::{FolderAccess, RunReport, Sandbox, SandboxCommand};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::Truncation;
use tool::{Category, Failure, FailureKind, Mode, RiskLevel, ToolOutput, ToolSpec};

use super::git::RepoPath;
use super::junit;
use super::quarantine::{self, QuarantinedFile};
use super::test_results::{self, FailedTest, TestCounts, TestResults};
use super::toolchain::{self, Project, ProjectProgram, SelectedProgram, ToolchainProgram};
use super::{script_failures, with_outcome};
use crate::output_budget;
use crate::sandboxed_tool::{SandboxSession, SandboxedTool, ToolFuture};
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};
use crate::untrusted_text::{self, sanitize};

/// Bytes captured of the report and of the output. Of a report, only the half from the start is parsed.
const MAX_REPORT_BYTES: usize = 2 * 4 * 1024 * 1024;
/// Bytes shown of the output.
const MAX_SHOWN_OUTPUT: usize = 32 * 1024;

/// Runs the arguments with their output redirected to stderr, so that stdout contains only the report, and
/// keeps the exit code. Nextest writes a report only if a configuration file enables it.
const RUN_SCRIPT: &str = r#"printf '[profile.default.junit]\npath = "/tmp/sinew-report.xml"\n' > /tmp/sinew-nextest.toml
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
    runner: TestRunner,
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
enum TestRunner {
    #[default]
    Auto,
    Pytest,
    Cargo,
    Nextest,
    Npm,
}

#[derive(Serialize, JsonSchema)]
struct TestRunOutput {
    /// Test runner that ran.
    program: ToolchainProgram,
    /// `passed`, `failed`, `no_tests`, or `error` if the tests could not be run completely.
    outcome: &'static str,
    /// Exit code of the runner.
    exit_code: i32,
    /// Number of tests by outcome; null if the runner does not report it.
    counts: Option<TestCounts>,
    /// Tests that did not pass.
    failures: Vec<FailedTest>,
    /// End of the output.
    output: String,
    /// Always true: other programs wrote the text.
    untrusted: bool,
    /// Notice about untrusted content.
    notice: &'static str,
    /// Files created by the tests that other programs would execute or load, such as git hooks, and where
    /// they were moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<QuarantinedFile>,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolRegistration {
    let about = "Run a project's tests (pytest, cargo test, cargo nextest or npm test) in a sandbox without network, and list \
                 the failures.";
    let mut spec = ToolSpec::new("run_tests", about, Category::SYSTEM_WRITE, RiskLevel::Medium);
    spec.allowed_modes = vec![Mode::Normal];
    spec.requires_sandbox = true;
    spec.timeout_seconds = 600;
    spec.annotations = Annotations::default();
    spec.example = Some(json!({"path": ".", "runner": "pytest"}));
    ToolRegistration::sandboxed(spec, SandboxedTool::new(sandbox, run_tests).with_preview(preview))
}

fn preview(permit: &Permit, arguments: &Arguments) -> Result<CallPreview, Failure> {
    toolchain::preview(permit, arguments.runner, |runner| runner_arguments(runner, arguments))
}

impl ProjectProgram for TestRunner {
    fn in_project(self, project: &Project) -> TestRunner {
        match self {
            TestRunner::Auto if project.has("Cargo.toml") && project.has(".config/nextest.toml") => {
                TestRunner::Nextest
            }
            TestRunner::Auto if project.has("Cargo.toml") => TestRunner::Cargo,
            TestRunner::Auto if project.has("package.json") => TestRunner::Npm,
            TestRunner::Auto => TestRunner::Pytest,
            named => named,
        }
    }

    fn executable(self) -> &'static str {
        match self {
            TestRunner::Cargo | TestRunner::Nextest => "cargo",
            TestRunner::Npm => "npm",
            TestRunner::Auto | TestRunner::Pytest => "pytest",
        }
    }

    fn subcommand(self) -> Option<&'static str> {
        (self == TestRunner::Nextest).then_some("nextest")
    }

    fn settings(self) -> Option<&'static str> {
        match self {
            TestRunner::Cargo | TestRunner::Nextest => Some("Cargo.toml"),
            TestRunner::Npm => Some("package.json"),
            TestRunner::Auto | TestRunner::Pytest => None,
        }
    }
}

fn run_tests<'a>(session: &'a mut SandboxSession, arguments: &'a Arguments) -> ToolFuture<'a, TestRunOutput> {
    Box::pin(async move {
        let selected = SelectedProgram::find(session, arguments.runner).await?;
        session.report_progress(format!(
            "{} {}: running the tests",
            selected.tooling.name, selected.tooling.version
        ));
        let words = runner_arguments(selected.program, arguments)?;
        if selected.program == TestRunner::Pytest {
            let names: Vec<String> = arguments.tests.iter().map(|test| test.file_name().to_owned()).collect();
            session.offload(move |permit| toolchain::check_files_exist(permit, &names)).await??;
        }
        let launcher = ("sh", ["-c", RUN_SCRIPT, "sh"].as_slice());
        let command = selected.command(launcher, words, (MAX_REPORT_BYTES, session.deadline));
        let report = session
            .run_with_progress(SandboxCommand { folder_access: FolderAccess::AsPermitted, ..command })
            .await?;
        let files_touched = quarantine::touched_paths(&report.quarantined);
        let SelectedProgram { program: runner, tooling, .. } = selected;
        let (value, truncated) =
            session.offload(move |permit| parse_output(runner, tooling, &report, permit)).await??;
        session.report_progress(format!("the tests have finished: {}", value.outcome));
        Ok(TypedOutput { value, metadata: ToolOutput { truncated, files_touched, ..ToolOutput::default() } })
    })
}

/// Builds the arguments. Values of the caller follow `--`, so that none can be parsed as an option.
fn runner_arguments(runner: TestRunner, arguments: &Arguments) -> Result<Vec<OsString>, Failure> {
    let mut words: Vec<OsString> = match runner {
        TestRunner::Cargo => {
            ["test", "--offline", "--no-fail-fast", "--color=never"].map(OsString::from).to_vec()
        }
        TestRunner::Nextest => nextest_arguments(arguments.max_failures),
        TestRunner::Npm => vec!["test".into()],
        TestRunner::Auto | TestRunner::Pytest => {
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
        words.push(test.to_argument()?);
    }
    Ok(words)
}

fn nextest_arguments(max_failures: u32) -> Vec<OsString> {
    let fixed = ["nextest", "run", "--offline", "--color=never", "--hide-progress-bar"];
    let report = ["--tool-config-file", "sinew:/tmp/sinew-nextest.toml"];
    let stop = match max_failures {
        0 => "--no-fail-fast".to_owned(),
        max => format!("--max-fail={max}"),
    };
    fixed.into_iter().chain(report).map(OsString::from).chain([stop.into()]).collect()
}

/// Parses the results and reports what was omitted.
fn parse_output(
    runner: TestRunner,
    program: ToolchainProgram,
    report: &RunReport,
    permit: &Permit,
) -> Result<(TestRunOutput, Option<Truncation>), Failure> {
    let text = String::from_utf8_lossy(&report.stderr.head).into_owned()
        + &String::from_utf8_lossy(&report.stderr.tail);
    let exit_code = report.end.exit_code();
    let (counts, found) = count_results(runner, &text, &String::from_utf8_lossy(&report.stdout.head));
    let word = run_outcome(runner, exit_code, counts);
    if word == "error" && counts.is_none_or(|counts| counts.total == 0) {
        let reason = toolchain::failure_reason(&text);
        let hint = "the project may need a dependency that is not installed; tests run without network";
        let failure =
            Failure::new(FailureKind::Unreadable, format!("the tests did not run: {reason}")).with_hint(hint);
        return Err(with_outcome(failure, "tests_not_run"));
    }
    let total = found.counts.failed + found.counts.errors;
    let failures = found.failures.into_iter().map(FailedTest::sanitized).collect();
    let failures = output_budget::take_fitting(failures, output_budget::content_budget(permit) / 2);
    let left_out = match runner {
        TestRunner::Cargo | TestRunner::Npm => report.stderr.omitted,
        TestRunner::Nextest | TestRunner::Auto | TestRunner::Pytest => report.stdout.omitted,
    };
    let truncated = truncation(total, failures.len(), left_out);
    let (text, quarantined) = (
        sanitize(&test_results::tail_lines(&text, MAX_SHOWN_OUTPUT)),
        quarantine::quarantined_files(&report.quarantined),
    );
    let value = TestRunOutput {
        program,
        outcome: word,
        exit_code,
        counts,
        failures,
        output: text,
        untrusted: true,
        notice: untrusted_text::NOTICE,
        quarantined,
    };
    Ok((value, truncated))
}

/// Returns the counts that the runner reports, and the tests that failed.
fn count_results(runner: TestRunner, text: &str, report: &str) -> (Option<TestCounts>, TestResults) {
    let found = match runner {
        TestRunner::Cargo => test_results::parse_cargo(text),
        TestRunner::Npm => script_failures::parse_failures(text),
        TestRunner::Nextest | TestRunner::Auto | TestRunner::Pytest => junit::parse_report(report),
    };
    let counts = match runner {
        TestRunner::Npm => test_results::parse_npm_counts(text),
        // A project that configures another report path still prints its counts.
        TestRunner::Nextest if found.counts.total == 0 => test_results::parse_nextest_summary(text),
        _ => Some(found.counts),
    };
    (counts, found)
}

/// Describes the truncation if failures were omitted or the report exceeded its limit.
fn truncation(total: u64, returned: usize, left_out: u64) -> Option<Truncation> {
    let report = match left_out {
        0 => String::new(),
        bytes => format!("{bytes} bytes of the report were not parsed, so the counts are too low: "),
    };
    let how = format!("{report}run some of `tests`, or set max_failures");
    output_budget::truncation(returned, total, left_out > 0, &how)
}

/// Returns the outcome of a run. pytest exits with 5 if it found no tests, and with other codes above 1 if it
/// could not run them. cargo exits with 101 for a failure and for a compile error; nextest exits with 100 for
/// a failure and 4 for no tests.
fn run_outcome(runner: TestRunner, exit_code: i32, counts: Option<TestCounts>) -> &'static str {
    let none = counts.is_some_and(|counts| counts.total == 0);
    let bad = counts.is_some_and(|counts| counts.failed + counts.errors > 0);
    match (runner, exit_code) {
        (TestRunner::Pytest | TestRunner::Auto, 5) | (TestRunner::Nextest, 4) => "no_tests",
        (_, 0) if none => "no_tests",
        (_, 0) => "passed",
        (TestRunner::Pytest | TestRunner::Auto, 1) => "failed",
        (TestRunner::Cargo, 101) if bad => "failed",
        (TestRunner::Nextest, 100) => "failed",
        (TestRunner::Npm, 1..) => "failed",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_has_an_outcome() {
        let counts = |passed, failed| {
            Some(TestCounts { total: passed + failed, passed, failed, ..TestCounts::default() })
        };
        for (runner, code, counts, expect) in [
            (TestRunner::Pytest, 0, counts(2, 0), "passed"),
            (TestRunner::Pytest, 1, counts(1, 1), "failed"),
            (TestRunner::Pytest, 2, counts(0, 0), "error"),
            (TestRunner::Pytest, 4, counts(0, 0), "error"),
            (TestRunner::Pytest, 5, counts(0, 0), "no_tests"),
            (TestRunner::Cargo, 0, counts(3, 0), "passed"),
            (TestRunner::Cargo, 0, counts(0, 0), "no_tests"),
            (TestRunner::Cargo, 101, counts(2, 1), "failed"),
            (TestRunner::Cargo, 101, counts(0, 0), "error"),
            (TestRunner::Nextest, 0, counts(3, 0), "passed"),
            (TestRunner::Nextest, 4, None, "no_tests"),
            (TestRunner::Nextest, 100, counts(2, 1), "failed"),
            (TestRunner::Nextest, 101, None, "error"),
            (TestRunner::Npm, 0, None, "passed"),
            (TestRunner::Npm, 1, None, "failed"),
            (TestRunner::Npm, -1, None, "error"),
        ] {
            assert_eq!(run_outcome(runner, code, counts), expect, "{runner:?} {code} {counts:?}");
        }
    }

    #[test]
    fn omitted_failures_are_reported_as_truncated() {
        assert_eq!(truncation(3, 3, 0), None);
        let fields = |cut: Option<Truncation>| cut.map(|cut| (cut.total, cut.returned, cut.how_to_continue));
        let (total, returned, words) = fields(truncation(3, 1, 0)).unwrap();
        assert_eq!((total, returned, words.as_str()), (3, 1, "run some of `tests`, or set max_failures"));
        let (.., words) = fields(truncation(1, 1, 70)).unwrap();
        assert!(words.starts_with("70 bytes of the report were not parsed"), "{words}");
    }
}
