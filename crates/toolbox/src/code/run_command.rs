//! `run_command`: one program with its arguments, in walls that let it change the workspaces and nothing else.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use governance::{Permit, WorkspaceAccess};
use registry::{Order, Running, ToolExecutor};
use sandbox::{Captured, Command, Confined, End, Grant, Report, Sandbox, SandboxError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{
    Annotations, Category, Failure, FailureKind, Mode, Output, RiskLevel, ToolSpec, Truncation, Usage,
};

use crate::tool_entry::ToolEntry;

/// What is kept of each output at most. More than a model reads.
const MOST_OUTPUT: u64 = 64 * 1024;
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
}

#[derive(Serialize, JsonSchema)]
struct Ran {
    /// The program's own code; 128 and the signal's number for one that was ended by a signal; -1 for one whose time
    /// was over.
    exit_code: i32,
    /// How it ended: exited, signalled, timed_out, out_of_memory, too_many_processes or killed.
    end: &'static str,
    /// Whether its time was over.
    timed_out: bool,
    /// What it wrote to standard output.
    stdout: String,
    /// What it wrote to standard error.
    stderr: String,
    /// `utf-8`, or `base64` where it is no text.
    stdout_encoding: &'static str,
    /// `utf-8`, or `base64` where it is no text.
    stderr_encoding: &'static str,
    /// How many bytes were left out of the middle of `stdout`.
    stdout_omitted_bytes: u64,
    /// How many bytes were left out of the middle of `stderr`.
    stderr_omitted_bytes: u64,
    /// What it ran in.
    sandbox: Receipt,
    /// What the walls may have had to do with its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Receipt {
    /// How far it was confined: full or reduced.
    tier: &'static str,
    /// The file that was run.
    program: String,
    /// Its digest.
    program_sha256: String,
    /// Names it created that others would act on, such as git hooks, and where they were put instead.
    quarantined: Vec<Aside>,
}

#[derive(Serialize, JsonSchema)]
struct Aside {
    /// As it was created.
    path: String,
    /// Where it is now; absent if it could not be moved.
    moved_to: Option<String>,
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
    spec.example = Some(json!({"command": ["git", "status"]}));
    let executor = Arc::new(RunCommand { sandbox: sandbox.clone() });
    ToolEntry::with_executor(spec.input::<Arguments>().output::<Ran>(), executor)
}

impl ToolExecutor for RunCommand {
    fn run(&self, order: Arc<Order>) -> Running {
        let sandbox = self.sandbox.clone();
        let deadline = Instant::now() + order.value().timeout();
        Box::pin(async move {
            let prepared = tokio::task::spawn_blocking({
                let order = Arc::clone(&order);
                move || prepare(order.value(), deadline)
            });
            let confined = match prepared.await {
                Ok(confined) => confined?,
                Err(_) => return Err(Failure::new(FailureKind::Crashed, "preparing the command failed")),
            };
            let report = sandbox.run(confined).await.map_err(|error| not_run(&error))?;
            answer(order.value(), &report)
        })
    }
}

fn prepare(permit: &Permit, deadline: Instant) -> Result<Confined, Failure> {
    let arguments: Arguments = permit.call().typed()?;
    let mut words = arguments.command.into_iter();
    let Some(program) = words.next() else {
        return Err(Failure::new(FailureKind::NotFound, "`command` names no program"));
    };
    let budget = permit.max_output_bytes() / WORST_GROWTH;
    let command = Command {
        program: program.into(),
        arguments: words.map(Into::into).collect(),
        input: None,
        folder: permit.path("cwd").map(|folder| folder.canonical().to_owned()),
        deadline,
        output_bytes: usize::try_from(budget.min(MOST_OUTPUT)).unwrap_or(0),
        grant: Grant::AsPermitted,
        variables: Vec::new(),
    };
    Confined::prepare(permit, &command).map_err(|error| not_run(&error))
}

/// A command that did not run.
fn not_run(error: &SandboxError) -> Failure {
    let (kind, hint) = match error {
        SandboxError::NoProgram { .. } => {
            (FailureKind::NotFound, "install it, or name one of those that are there")
        }
        SandboxError::NotStarted { .. } => {
            (FailureKind::Unreadable, "the sandbox stood; the program did not start")
        }
        SandboxError::UntrustedProgram(_) => (
            FailureKind::Unreadable,
            "a program is taken from the system's folders; to run one of the workspace, name its interpreter first",
        ),
        SandboxError::Folder(_) => (FailureKind::NotFound, "run in a workspace"),
        SandboxError::Nul(_) => (FailureKind::WrongKind, "leave the NUL out"),
        SandboxError::NotBuilt { .. } | SandboxError::Launcher(_) => {
            (FailureKind::Io, "nothing was run; `sinew doctor` says what this machine lacks")
        }
        SandboxError::Unlisted { .. } | SandboxError::TooLarge { .. } => {
            (FailureKind::TooLarge, "nothing was run; narrow the workspace")
        }
        SandboxError::Lost => (FailureKind::Crashed, "what it did so far may have had an effect"),
    };
    Failure::new(kind, error.to_string()).hint(hint)
}

fn answer(permit: &Permit, report: &Report) -> Result<Output, Failure> {
    let usage = Usage {
        cpu_ms: report.spent.cpu.as_secs_f64() * 1000.0,
        max_rss_bytes: report.spent.max_rss_bytes,
        read_bytes: report.spent.read_bytes,
        written_bytes: report.spent.written_bytes,
    };
    let (tier, end, truncated) = (report.tier, report.end, truncation(report));
    let value = serde_json::to_value(ran(permit, report)).map_err(|error| {
        Failure::new(FailureKind::Crashed, format!("the tool's answer is not JSON: {error}"))
    })?;
    let memory = permit.confinement().memory_mb;
    let failed = match end {
        End::Exited(_) | End::Signalled(_) | End::Killed => {
            return Ok(Output { value, usage, truncated, sandbox: tier, ..Output::default() });
        }
        End::TimedOut => Failure::new(FailureKind::TimedOut, "Command timed out")
            .hint("everything it started was ended; what it wrote until then is in the output"),
        // Not the machine's exhaustion: that would be for the mode to act on, and anybody could bring it about.
        End::OutOfMemory => {
            Failure::new(FailureKind::TooLarge, "Command used too much memory").hint(format!(
                "policy grants {} MiB (`memory_mb`)",
                memory.map_or("2048".to_owned(), |m| m.to_string())
            ))
        }
        End::TooManyProcesses => Failure::new(FailureKind::TooLarge, "Command started too many processes")
            .hint("`max_processes` of tools.yaml decides"),
        End::Cancelled => Failure::new(FailureKind::Cancelled, "Command was cancelled"),
    };
    Err(Failure { output: Some(value), sandbox: tier, ..failed })
}

fn ran(permit: &Permit, report: &Report) -> Ran {
    let note = note(permit, report);
    let (exit_code, end) = match report.end {
        End::Exited(code) => (code, "exited"),
        End::Signalled(signal) => (128 + signal, "signalled"),
        End::TimedOut => (-1, "timed_out"),
        End::OutOfMemory => (-1, "out_of_memory"),
        End::TooManyProcesses => (-1, "too_many_processes"),
        End::Cancelled | End::Killed => (-1, "killed"),
    };
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let aside = report
        .quarantined
        .iter()
        .map(|one| Aside { path: path(&one.path), moved_to: one.moved_to.as_deref().map(path) });
    let (stdout_omitted_bytes, stderr_omitted_bytes) = (report.stdout.omitted, report.stderr.omitted);
    let (stdout, stdout_encoding) = shown(&report.stdout);
    let (stderr, stderr_encoding) = shown(&report.stderr);
    Ran {
        exit_code,
        end,
        timed_out: report.end == End::TimedOut,
        stdout,
        stderr,
        stdout_encoding,
        stderr_encoding,
        stdout_omitted_bytes,
        stderr_omitted_bytes,
        sandbox: Receipt {
            tier: report.tier.as_str(),
            program: path(&report.executable.path),
            program_sha256: report.executable.sha256.clone(),
            quarantined: aside.collect(),
        },
        note,
    }
}

/// Text as it is, with a line for what was left out; what is no text in base64, head and tail one after the other.
fn shown(captured: &Captured) -> (String, &'static str) {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let whole = match captured.omitted {
        0 => text(&captured.head),
        omitted => text(whole_at_end(&captured.head))
            .zip(text(whole_at_start(&captured.tail)))
            .map(|(head, tail)| format!("{head}\n[{omitted} bytes left out]\n{tail}")),
    };
    match whole {
        Some(text) => (text, "utf-8"),
        None => (STANDARD.encode([captured.head.as_slice(), &captured.tail].concat()), "base64"),
    }
}

/// The same without the beginning of a character that was cut in two.
fn whole_at_end(bytes: &[u8]) -> &[u8] {
    let cut = (0..4).find(|cut| {
        let kept = bytes.get(..bytes.len().saturating_sub(*cut)).unwrap_or_default();
        std::str::from_utf8(kept).is_ok()
    });
    bytes.get(..bytes.len().saturating_sub(cut.unwrap_or(0))).unwrap_or_default()
}

/// The same without the rest of a character that was cut in two.
fn whole_at_start(bytes: &[u8]) -> &[u8] {
    let is_rest = |byte: &u8| byte & 0xc0 == 0x80;
    let rest = bytes.iter().take(3).take_while(|byte| is_rest(byte)).count();
    bytes.get(rest..).unwrap_or_default()
}

fn truncation(report: &Report) -> Option<Truncation> {
    let omitted = report.stdout.omitted + report.stderr.omitted;
    let total = report.stdout.total() + report.stderr.total();
    (omitted > 0).then(|| Truncation {
        total,
        returned: total - omitted,
        how_to_continue:
            "the beginning and the end are kept; have the command write to a file of the workspace, and \
                          read that in parts"
                .to_owned(),
    })
}

/// What a program says when a wall stopped it looks like any other failure, so the walls are named beside it.
fn note(permit: &Permit, report: &Report) -> Option<String> {
    let said = [&report.stderr, &report.stdout].map(|output| {
        String::from_utf8_lossy(&[output.head.as_slice(), &output.tail].concat()).to_lowercase()
    });
    let walls =
        ["permission denied", "operation not permitted", "read-only file system", "network is unreachable"];
    let looks_denied = walls.iter().any(|words| said.iter().any(|said| said.contains(words)));
    if matches!(report.end, End::Exited(0)) || !looks_denied {
        return None;
    }
    let writable = permit.folders().iter().filter(|folder| folder.access() == WorkspaceAccess::ReadWrite);
    let writable: Vec<String> = writable.map(|folder| folder.root().display().to_string()).collect();
    let network = match permit.confinement().network {
        governance::Network::Off => "off",
        governance::Network::Loopback => "loopback",
        governance::Network::Full => "full",
    };
    Some(format!(
        "the sandbox may have stopped it: it can write to {} and /tmp, which is its own; its network is {network}",
        if writable.is_empty() { "no folder".to_owned() } else { writable.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &[u8], tail: &[u8], omitted: u64, expect: &str, encoding: &str) {
        let captured = Captured { head: head.to_vec(), tail: tail.to_vec(), omitted };
        assert_eq!(
            shown(&captured),
            (expect.to_owned(), if encoding == "utf-8" { "utf-8" } else { "base64" })
        );
    }

    #[test]
    fn output_is_text_where_it_is_text_and_lossless_where_not() {
        check(b"abc", b"", 0, "abc", "utf-8");
        check(b"a\xff", b"", 0, "Yf8=", "base64");
        check(b"ab", b"yz", 7, "ab\n[7 bytes left out]\nyz", "utf-8");
        let euro = "€".as_bytes();
        check(&euro[..2], &euro[1..], 2, "\n[2 bytes left out]\n", "utf-8");
        check(b"ab\xff\xff\xff\xff", b"yz", 7, "YWL/////eXo=", "base64");
    }
}
