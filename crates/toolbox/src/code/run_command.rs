//! `run_command`: runs one program with its arguments, in a sandbox in which it can change only the
//! workspaces.

mod command_output;
mod sandbox_denials;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use governance::Permit;
use registry::CallPreview;
use sandbox::{CommandPreview, FolderAccess, Sandbox, SandboxCommand, WorkingDirectory};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, Failure, FailureKind, Mode, RiskLevel, ToolSpec};

use self::command_output::{CommandOutput, to_output};
use crate::sandboxed_tool::{SandboxSession, SandboxedTool, ToolFuture};
use crate::tool_registration::ToolRegistration;

/// Bytes kept of each output. More than a model reads.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// Largest growth of a byte of output in the result: two outputs, each byte at most `\u0000`.
const WORST_GROWTH: u64 = 12;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Program and its arguments, as separate strings. No shell interprets them.
    #[schemars(extend("format" = "command", "minItems" = 1))]
    command: Vec<String>,
    /// Directory to run in, absolute or relative to the workspace. Default: the workspace.
    #[serde(default, rename = "cwd")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read"))]
    _cwd: Option<String>,
    /// Text for the program's standard input. Default: empty.
    #[serde(default)]
    #[schemars(length(max = 1_048_576))]
    stdin: Option<String>,
    /// Timeout in seconds. The policy's timeout applies if it is shorter.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    timeout_seconds: Option<u64>,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolRegistration {
    let about = "Run a program in a sandbox: it can change only the workspaces and has no network \
                 unless the policy grants it. Arguments are passed unchanged; there is no shell.";
    let mut spec = ToolSpec::new("run_command", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.requires_sandbox = true;
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"command": ["grep", "-rn", "TODO", "src"]}));
    ToolRegistration::sandboxed(spec, SandboxedTool::new(sandbox, run).with_preview(preview))
}

fn preview(permit: &Permit, arguments: &Arguments) -> Result<CallPreview, Failure> {
    let command = command(permit, arguments, Instant::now())?;
    let facts = CommandPreview::of(permit, &command)?.facts();
    Ok(CallPreview { facts, ..CallPreview::default() })
}

fn run<'a>(session: &'a mut SandboxSession, arguments: &'a Arguments) -> ToolFuture<'a, CommandOutput> {
    Box::pin(async move {
        let command = command(session.permit(), arguments, session.deadline)?;
        let report = session.run_to_any_end(command).await?;
        to_output(session.permit(), &report)
    })
}

fn command(permit: &Permit, arguments: &Arguments, deadline: Instant) -> Result<SandboxCommand, Failure> {
    let Some((program, program_arguments)) = arguments.command.split_first() else {
        return Err(Failure::new(FailureKind::NotFound, "`command` names no program"));
    };
    let requested = arguments.timeout_seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let budget = permit.max_output_bytes() / WORST_GROWTH;
    Ok(SandboxCommand {
        program: program.into(),
        arguments: program_arguments.iter().map(Into::into).collect(),
        input: arguments.stdin.clone().map(String::into_bytes),
        working_directory: WorkingDirectory::from_request(
            permit.path("cwd").map(|folder| folder.canonical().to_owned()),
        ),
        deadline: requested.map_or(deadline, |requested| requested.min(deadline)),
        output_bytes: usize::try_from(budget.min(MAX_OUTPUT_BYTES)).unwrap_or(0),
        folder_access: FolderAccess::AsPermitted,
        variables: git_environment(),
    })
}

/// Overrides git settings that name programs, because `git status` would run those of the repository's
/// configuration.
fn git_environment() -> Vec<(String, OsString)> {
    const SETTINGS: [(&str, &str); 3] =
        [("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null"), ("safe.bareRepository", "explicit")];
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), SETTINGS.len().to_string().into())];
    for (number, (key, value)) in SETTINGS.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), key.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.into()));
    }
    variables
}
