//! `run_command`: one program with its arguments, in walls that let it change the workspaces and nothing else.

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

/// What is kept of each output at most. More than a model reads.
const MOST_OUTPUT: u64 = 64 * 1024;
/// How much of its outputs is told while it runs.
const MOST_TOLD: usize = 1024 * 1024;
/// How many bytes of an answer a byte of output can take: two outputs, each byte at most `\u0000`.
const WORST_GROWTH: u64 = 12;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The program and its arguments, one by one. No shell reads them.
    #[schemars(extend("format" = "command", "minItems" = 1))]
    command: Vec<String>,
    /// The folder to run in, absolute or relative to the workspace; absent means the workspace itself.
    #[serde(default, rename = "cwd")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read"))]
    _cwd: Option<String>,
    /// What the program reads on its standard input; absent means that there is nothing to read.
    #[serde(default)]
    #[schemars(length(max = 1_048_576))]
    stdin: Option<String>,
    /// End it after so many seconds. Policy may end it sooner, and never later.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    timeout_seconds: Option<u64>,
}

/// The body of the tool.
struct RunCommand {
    sandbox: Sandbox,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolEntry {
    let about = "Run a program in a sandbox: it can change the workspaces and nothing else, and has no network \
                 unless policy grants it. Arguments are passed as they are; there is no shell.";
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
        let foresight = Foresight::of(permit, &command).map_err(|error| not_run(&error))?;
        let file = |file: &Executable| format!("{} (sha256 {})", file.path.display(), file.sha256);
        let mut facts = vec![
            ("program".to_owned(), file(&foresight.program)),
            ("runs in".to_owned(), foresight.folder.display().to_string()),
            ("sees".to_owned(), format!("the variables {}", foresight.variables.join(", "))),
        ];
        facts.extend(foresight.files.iter().map(|named| ("reads".to_owned(), file(named))));
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
                Err(_) => return Err(Failure::new(FailureKind::Crashed, "preparing the command failed")),
            };
            let report =
                sandbox.run_telling(confined, heard_by(progress)).await.map_err(|error| not_run(&error))?;
            answer(order.value(), &report)
        })
    }
}

/// Pieces of output for whoever follows the call, up to a bound; the result has what the bound leaves out.
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
    let asked = arguments.timeout_seconds.map(Duration::from_secs);
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
        deadline: begun + asked.map_or(permit.timeout(), |asked| asked.min(permit.timeout())),
        output_bytes: usize::try_from(budget.min(MOST_OUTPUT)).unwrap_or(0),
        grant: Grant::AsPermitted,
        variables: git_settings(),
    })
}

/// A repository's own settings name programs, and `git status` would run them. What is set here holds over them.
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

/// A command that did not run.
pub(crate) fn not_run(error: &SandboxError) -> Failure {
    let (kind, hint) = match error {
        SandboxError::NoProgram { .. } => {
            (FailureKind::NotFound, "install it, or name one of those that are there")
        }
        SandboxError::NotStarted { .. } => {
            (FailureKind::Unreadable, "the sandbox stood; the program did not start")
        }
        SandboxError::UntrustedProgram(_) => (
            FailureKind::Unreadable,
            "a program is taken from the system's folders, or those of `program_folders` in tools.yaml; to run one of the \
             workspace, name its interpreter first",
        ),
        SandboxError::UntrustedFolder(_) => {
            (FailureKind::Unreadable, "`program_folders` of tools.yaml and the workspaces must be apart")
        }
        SandboxError::Folder(_) => (FailureKind::NotFound, "run in a workspace"),
        SandboxError::OwnView(_) => (FailureKind::WrongKind, "name the file by its path in the workspace"),
        SandboxError::NamesTooMuch(_) => (FailureKind::TooLarge, "nothing was run; do it in smaller steps"),
        SandboxError::Nul(_) => (FailureKind::WrongKind, "leave the NUL out"),
        SandboxError::NotBuilt { .. } | SandboxError::Launcher(_) => {
            (FailureKind::Io, "nothing was run; `sinew doctor` says what this machine lacks")
        }
        SandboxError::NotNoted(_) => {
            (FailureKind::Io, "nothing was run; Sinew's own folder must be writable")
        }
        SandboxError::NeedsFull(_) => (
            FailureKind::Io,
            "nothing was run; turn user namespaces on, or keep such names out of the workspace",
        ),
        SandboxError::Unlisted { .. } | SandboxError::TooLarge { .. } | SandboxError::TooManyNames { .. } => {
            (FailureKind::TooLarge, "nothing was run; narrow the workspace")
        }
        SandboxError::OutOfTime(_) => {
            (FailureKind::TimedOut, "nothing was run; narrow the workspace, or give the call more time")
        }
        SandboxError::LeftUnseen(_) | SandboxError::LeftTooMany(_) => {
            (FailureKind::TooLarge, "it ran; look through what it made before anything acts on it")
        }
        SandboxError::LeftInPlace(_) => (
            FailureKind::Io,
            "it ran; remove what it made before anything acts on it, and before the next run",
        ),
        SandboxError::StillThere(_) => (FailureKind::Io, "nothing was run; somebody else must remove it"),
        SandboxError::Lost => (FailureKind::Crashed, "what it did so far may have had an effect"),
    };
    Failure::new(kind, error.to_string()).hint(hint)
}
