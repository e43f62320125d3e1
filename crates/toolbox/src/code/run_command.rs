//! `run_command`: runs one program with its arguments, in a sandbox in which it can change only the
//! workspaces.

mod answer;
mod denied;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::Permit;
use registry::{Order, Preview, Running, ToolExecutor};
use sandbox::{
    Awaited, Command, Confined, Executable, Foresight, Grant, Hear, Piece, Sandbox, SandboxError, Workplace,
    while_awaited,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tool::{Annotations, Category, Failure, FailureKind, Mode, Progress, ProgressNote, RiskLevel, ToolSpec};

use self::answer::{Ran, answer};
use super::bytes;
use crate::tool_entry::ToolEntry;

/// Bytes kept of each output. More than a model reads.
const MOST_OUTPUT: u64 = 64 * 1024;
/// Bytes of output reported as progress while the program runs.
const MOST_TOLD: usize = 1024 * 1024;
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

struct RunCommand {
    sandbox: Sandbox,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolEntry {
    let about = "Run a program in a sandbox: it can change only the workspaces and has no network \
                 unless the policy grants it. Arguments are passed unchanged; there is no shell.";
    let mut spec = ToolSpec::new("run_command", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.requires_sandbox = true;
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"command": ["grep", "-rn", "TODO", "src"]}));
    let executor = Arc::new(RunCommand { sandbox: sandbox.clone() });
    ToolEntry::with_executor(spec.input::<Arguments>().output::<Ran>(), executor)
}

impl ToolExecutor for RunCommand {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        let command = command(permit, Instant::now())?;
        let command_preview = Foresight::of(permit, &command).map_err(|error| not_run(&error))?;
        let file = |file: &Executable| format!("{} (sha256 {})", file.path.display(), file.sha256);
        let mut facts = vec![
            ("program".to_owned(), file(&command_preview.program)),
            ("runs in".to_owned(), command_preview.folder.display().to_string()),
            ("sees".to_owned(), format!("the variables {}", command_preview.variables.join(", "))),
        ];
        facts.extend(command_preview.files.iter().map(|named| ("reads".to_owned(), file(named))));
        Ok(Preview { facts, ..Preview::default() })
    }

    fn run(&self, order: Arc<Order>) -> Running {
        self.run_telling(order, Progress::default())
    }

    fn run_telling(&self, order: Arc<Order>, progress: Progress) -> Running {
        let sandbox = self.sandbox.clone();
        let begun = Instant::now();
        Box::pin(async move {
            let prepared = while_awaited({
                let order = Arc::clone(&order);
                move |awaited| prepare(order.value(), begun, awaited)
            });
            let confined = match prepared.await {
                Ok(confined) => confined?,
                Err(_) => return Err(Failure::new(FailureKind::Crashed, "preparing the sandbox failed")),
            };
            let report =
                sandbox.run_telling(confined, heard_by(progress)).await.map_err(|error| not_run(&error))?;
            answer(order.value(), &report)
        })
    }
}

/// Returns a callback that reports output as progress, up to `MAX_PROGRESS_BYTES`. The result contains the
/// rest.
pub(crate) fn heard_by(progress: Progress) -> Option<Hear> {
    let mut left = MOST_TOLD;
    progress.is_heard().then(|| -> Hear {
        Box::new(move |piece: Piece<'_>| {
            left = left.saturating_sub(piece.bytes.len());
            if left > 0 {
                progress.tell(note(piece));
            }
        })
    })
}

fn note(piece: Piece<'_>) -> ProgressNote {
    let (text, encoding) = bytes::shown(piece.bytes);
    let source = piece.source.as_str();
    ProgressNote {
        message: format!("{} bytes of {source}", piece.bytes.len()),
        share: None,
        data: Some(json!({
            "sequence": piece.sequence,
            "source": source,
            "encoding": encoding,
            "content": text,
        })),
    }
}

fn prepare(permit: &Permit, begun: Instant, awaited: &Awaited) -> Result<Confined, Failure> {
    Confined::prepare(permit, &command(permit, begun)?, awaited).map_err(|error| not_run(&error))
}

fn command(permit: &Permit, begun: Instant) -> Result<Command, Failure> {
    let arguments: Arguments = permit.call().typed()?;
    let requested = arguments.timeout_seconds.map(Duration::from_secs);
    let mut words = arguments.command.into_iter();
    let Some(program) = words.next() else {
        return Err(Failure::new(FailureKind::NotFound, "`command` names no program"));
    };
    let budget = permit.max_output_bytes() / WORST_GROWTH;
    Ok(Command {
        program: program.into(),
        arguments: words.map(Into::into).collect(),
        input: arguments.stdin.map(String::into_bytes),
        workplace: Workplace::asked_for(permit.path("cwd").map(|folder| folder.canonical().to_owned())),
        deadline: begun + requested.map_or(permit.timeout(), |requested| requested.min(permit.timeout())),
        output_bytes: usize::try_from(budget.min(MOST_OUTPUT)).unwrap_or(0),
        grant: Grant::AsPermitted,
        variables: git_settings(),
    })
}

/// Overrides git settings that name programs, because `git status` would run those of the repository's
/// configuration.
fn git_settings() -> Vec<(String, OsString)> {
    const SETTINGS: [(&str, &str); 3] =
        [("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null"), ("safe.bareRepository", "explicit")];
    let mut variables = vec![("GIT_CONFIG_COUNT".to_owned(), SETTINGS.len().to_string().into())];
    for (number, (key, value)) in SETTINGS.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), key.into()));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.into()));
    }
    variables
}

/// Converts a sandbox error into a failure with a hint.
pub(crate) fn not_run(error: &SandboxError) -> Failure {
    let (kind, hint) = match error {
        SandboxError::NoProgram { .. } => (FailureKind::NotFound, "install it, or use an installed program"),
        SandboxError::NotStarted { .. } => {
            (FailureKind::Unreadable, "the sandbox was set up, but the program did not start")
        }
        SandboxError::UntrustedProgram(_) => (
            FailureKind::Unreadable,
            "programs must be in a system directory or in `program_folders` of tools.yaml; to run one of the \
             workspace, pass it to its interpreter",
        ),
        SandboxError::UntrustedFolder(_) => {
            (FailureKind::Unreadable, "`program_folders` in tools.yaml and the workspaces must not overlap")
        }
        SandboxError::Folder(_) => (FailureKind::NotFound, "use a directory inside a workspace"),
        SandboxError::OwnView(_) => (FailureKind::WrongKind, "use the path of the file in the workspace"),
        SandboxError::NamesTooMuch(_) => (FailureKind::TooLarge, "nothing was run; do it in smaller steps"),
        SandboxError::Nul(_) => (FailureKind::WrongKind, "remove the NUL"),
        SandboxError::NotBuilt { .. } | SandboxError::Launcher(_) => {
            (FailureKind::Io, "nothing was run; run `sinew doctor` to see what is missing")
        }
        SandboxError::NotNoted(_) => {
            (FailureKind::Io, "nothing was run; Sinew's state directory must be writable")
        }
        SandboxError::NeedsFull(_) => (
            FailureKind::Io,
            "nothing was run; enable user namespaces, or remove such names from the workspace",
        ),
        SandboxError::Unlisted { .. } | SandboxError::TooLarge { .. } | SandboxError::TooManyNames { .. } => {
            (FailureKind::TooLarge, "nothing was run; use a smaller workspace")
        }
        SandboxError::OutOfTime(_) => (
            FailureKind::TimedOut,
            "nothing was run; use a smaller workspace, or raise the timeout of the call",
        ),
        SandboxError::LeftUnseen(_) | SandboxError::LeftTooMany(_) => {
            (FailureKind::TooLarge, "it ran; review the files it created before other programs use them")
        }
        SandboxError::LeftInPlace(_) => (
            FailureKind::Io,
            "it ran; remove the files it created before other programs use them and before the next run",
        ),
        SandboxError::StillThere(_) => {
            (FailureKind::Io, "nothing was run; the operator must remove the file")
        }
        SandboxError::Lost => (FailureKind::Crashed, "the program may already have made changes"),
    };
    Failure::new(kind, error.to_string()).hint(hint)
}
