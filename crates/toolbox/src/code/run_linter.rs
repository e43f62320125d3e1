//! `run_linter`: runs a project's linter and returns its findings in one format. It runs in the sandbox,
//! because its configuration and plug-ins are code of the project.

use std::ffi::OsString;
use std::path::Path;

use governance::Permit;
use registry::CallPreview;
use sandbox::{RunEnd, RunReport, Sandbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, Failure, FailureKind, Mode, RiskLevel, ToolOutput, ToolSpec};

use super::git::RepoPath;
use super::lint_findings::{self, LintFinding};
use super::toolchain::{self, Project, ProjectProgram, SelectedProgram, ToolchainProgram};
use super::with_outcome;
use crate::output_budget;
use crate::sandboxed_tool::{SandboxSession, SandboxedTool, ToolFuture};
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};
use crate::untrusted_text::{self, sanitize_option};

/// Bytes captured of the linter's output: several thousand findings. Only the half from the start is parsed.
const MAX_OUTPUT_BYTES: usize = 2 * 4 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Project directory, absolute or relative to the workspace.
    #[serde(default, rename = "path")]
    _path: FolderArg,
    /// Linter to run; `auto` uses clippy if there is a Cargo.toml, otherwise ruff.
    #[serde(default)]
    linter: Linter,
    /// Files or directories to check, relative to `path`. Clippy always checks the whole project.
    #[serde(default)]
    #[schemars(length(max = 200))]
    files: Vec<RepoPath>,
    /// Maximum number of findings.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 5000))]
    max_entries: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Linter {
    #[default]
    Auto,
    Ruff,
    Mypy,
    Clippy,
}

fn usual_count() -> usize {
    500
}

#[derive(Serialize, JsonSchema)]
struct LintOutput {
    /// Linter that ran.
    program: ToolchainProgram,
    /// True if there are no findings.
    clean: bool,
    /// Findings.
    findings: Vec<LintFinding>,
    /// Total number of findings.
    total: u64,
    /// Always true: other programs wrote the text.
    untrusted: bool,
    /// Notice about untrusted content.
    notice: &'static str,
    /// Last line that the linter printed to stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolRegistration {
    let about =
        "Run a project's linter (ruff, mypy or clippy) in a sandbox without network, and list its findings.";
    let mut spec = ToolSpec::new("run_linter", about, Category::READ_ONLY, RiskLevel::Low);
    spec.allowed_modes = vec![Mode::Normal, Mode::Alert, Mode::Degraded, Mode::Recovery];
    spec.requires_sandbox = true;
    spec.timeout_seconds = 120;
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"path": ".", "linter": "ruff"}));
    ToolRegistration::sandboxed(spec, SandboxedTool::new(sandbox, lint).with_preview(preview))
}

fn preview(permit: &Permit, arguments: &Arguments) -> Result<CallPreview, Failure> {
    toolchain::preview(permit, arguments.linter, |linter| linter_arguments(linter, &arguments.files))
}

impl ProjectProgram for Linter {
    fn in_project(self, project: &Project) -> Linter {
        match self {
            Linter::Auto if project.has("Cargo.toml") => Linter::Clippy,
            Linter::Auto => Linter::Ruff,
            named => named,
        }
    }

    fn executable(self) -> &'static str {
        match self {
            Linter::Mypy => "mypy",
            Linter::Clippy => "cargo",
            Linter::Auto | Linter::Ruff => "ruff",
        }
    }

    fn subcommand(self) -> Option<&'static str> {
        (self == Linter::Clippy).then_some("clippy")
    }

    fn settings(self) -> Option<&'static str> {
        (self == Linter::Clippy).then_some("Cargo.toml")
    }
}

fn lint<'a>(session: &'a mut SandboxSession, arguments: &'a Arguments) -> ToolFuture<'a, LintOutput> {
    Box::pin(async move {
        let selected = SelectedProgram::find(session, arguments.linter).await?;
        session.report_progress(format!("{} {}", selected.tooling.name, selected.tooling.version));
        let linter_args = linter_arguments(selected.program, &arguments.files)?;
        let report = session
            .run(selected.command(("env", &[]), linter_args, (MAX_OUTPUT_BYTES, session.deadline)))
            .await?;
        let (end, omitted, max) = (report.end, report.stdout.omitted, arguments.max_entries);
        let SelectedProgram { program: linter, tooling: program, folder, .. } = selected;
        let read = session.offload(move |permit| {
            let (found, note) = parse_output(linter, &folder, &report)?;
            let is_shown = |one: &LintFinding| permit.is_visible(&folder.join(&one.file));
            let found: Vec<LintFinding> =
                found.into_iter().filter(is_shown).map(LintFinding::sanitized).collect();
            Ok::<_, Failure>((output_budget::listed(permit, found, max), note))
        });
        let ((findings, total), note) = read.await??;
        let how = "raise max_entries, or limit the run with `files`";
        let truncated = output_budget::truncation(findings.len(), total, omitted > 0, how);
        let clean = total == 0 && omitted == 0 && end == RunEnd::Exited(0);
        let (untrusted, notice, note) = (true, untrusted_text::NOTICE, sanitize_option(note));
        let value = LintOutput { program, clean, findings, total, untrusted, notice, note };
        Ok(TypedOutput { value, metadata: ToolOutput { truncated, ..ToolOutput::default() } })
    })
}

/// Builds the arguments, without cache and without fixes, so that the linter only reads. Values of the caller
/// follow `--`.
fn linter_arguments(linter: Linter, files: &[RepoPath]) -> Result<Vec<OsString>, Failure> {
    let fixed: &[&str] = match linter {
        Linter::Mypy => {
            &["--output=json", "--no-error-summary", "--cache-dir=/dev/null", "--show-column-numbers", "--"]
        }
        Linter::Clippy => {
            return Ok(["clippy", "--message-format=json", "--offline", "--quiet", "--all-targets"]
                .map(OsString::from)
                .to_vec());
        }
        Linter::Auto | Linter::Ruff => &["check", "--output-format=json", "--no-cache", "--no-fix", "--"],
    };
    let mut linter_args: Vec<OsString> = fixed.iter().map(OsString::from).collect();
    for file in files {
        linter_args.push(file.to_argument()?);
    }
    if files.is_empty() {
        linter_args.push(".".into());
    }
    Ok(linter_args)
}

/// Failure for unknown output, which must not be reported as no findings.
fn unreadable_output() -> Failure {
    let failure = Failure::new(FailureKind::Unreadable, "the linter's output cannot be parsed, or was cut");
    with_outcome(failure.with_hint("limit the run with `files`"), "linter_failed")
}

/// Parses the output. All three linters exit with 0 without findings, 1 (or 101) with findings, and 2 on
/// errors.
fn parse_output(
    linter: Linter,
    folder: &Path,
    report: &RunReport,
) -> Result<(Vec<LintFinding>, Option<String>), Failure> {
    let stdout = String::from_utf8_lossy(&report.stdout.head);
    let stderr = String::from_utf8_lossy(&report.stderr.head);
    let found = match linter {
        Linter::Mypy => lint_findings::parse_mypy(&stdout),
        Linter::Clippy => lint_findings::parse_clippy(&stdout),
        Linter::Auto | Linter::Ruff => {
            let is_cut = report.stdout.omitted > 0;
            lint_findings::parse_ruff(folder, &stdout, is_cut).ok_or_else(unreadable_output)?
        }
    };
    let note = stderr.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    match report.end {
        RunEnd::Exited(0 | 1) => Ok((found, note)),
        RunEnd::Exited(_) if !found.is_empty() => Ok((found, note)),
        _ => {
            let reason = toolchain::failure_reason(&stderr);
            // Cargo needs to write Cargo.lock, but the sandbox of a linter is read-only.
            let hint = match reason.contains("Cargo.lock") {
                true => {
                    "the project needs an up-to-date Cargo.lock: run_tests or `cargo generate-lockfile` creates it"
                }
                false => "the project's configuration may be wrong; the linter runs offline and cannot write",
            };
            let failure = Failure::new(FailureKind::Unreadable, format!("the linter did not run: {reason}"))
                .with_hint(hint);
            Err(with_outcome(failure, "linter_failed"))
        }
    }
}
