//! The words a person types. Parsing only: what they do lives in `command/`, one file each.

mod approvals;
mod hook;
mod manifest;
mod policy;
mod record;
mod service;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use tool::{CallId, Category, Mode};

use crate::command::ToolNames;

pub(crate) use approvals::{
    ApprovalsCommand, ApproveArgs, DenyArgs, PinArgs, PinCommand, SessionsCommand, Span,
};
pub(crate) use hook::{Fail, HookArgs, HookCommand, HostName, InstallArgs, Scope, UninstallArgs};
pub(crate) use manifest::ManifestCommand;
pub(crate) use policy::{AllowArgs, PolicyCommand};
pub(crate) use record::{ExportForm, LedgerCommand, LogsArgs, TraceArgs};
pub(crate) use service::{ServiceCommand, ServiceInstallArgs};

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 the tool failed, 2 wrong usage, 3 refused, 4 approval pending or timed out,
5 timed out, 6 daemon unreachable, 7 bad configuration.

Environment: SINEW_HOME moves configuration, state and sockets below one folder; SINEW_LOG sets the log filter;
NO_COLOR turns colours off.

Files, below SINEW_HOME if it is set: config/ (sinew.yaml, governance/), tools/ (manifests), state/ (ledger, undo),
log/ and run/ (agent.sock for agents, control.sock for you). `sinew doctor` shows where they are.

More: sinew help environment, sinew help exit-codes, sinew help files.";

/// The tool runtime of a local AI agent.
#[derive(Parser)]
#[command(name = "sinew", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the daemon in the foreground.
    Serve(ServeArgs),
    /// Call a tool, through the daemon if one runs, else in this process.
    Call(CallArgs),
    /// Say what would become of a call, and by which rules. Nothing runs, and nothing is recorded.
    Explain(ExplainArgs),
    /// List the tools, or show one.
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Show whether the daemon runs and how it is. Never starts it.
    Status(JsonArgs),
    /// Wait until the daemon answers, for scripts that start it. Never starts it.
    Wait(WaitArgs),
    /// Show the calls that have not ended: deciding, waiting for a human or a place, running.
    Ps(JsonArgs),
    /// End calls wherever they stand, with every process they started.
    Cancel(CancelArgs),
    /// The sessions of workers that are open, and the way to end one.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Questions that wait for you: calls that policy lets run only with a human's leave.
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Let calls run that wait for you.
    Approve(ApproveArgs),
    /// Refuse calls that wait for you.
    Deny(DenyArgs),
    /// The operator PIN, without which nothing is approved.
    #[command(subcommand)]
    Pin(PinCommand),
    /// How far the machine trusts its agent right now.
    #[command(subcommand)]
    Mode(ModeCommand),
    /// Let no further call change the machine or leave it. The same as `mode set LOCKDOWN`.
    Lockdown(ChangeArgs),
    /// Let the daemon read its configuration again, and show what changed. It also does so by itself.
    Reload(ReloadArgs),
    /// Write the configuration out for editing.
    Init(InitArgs),
    /// The settings that hold here.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check all configuration: what does not load, what can never match, what changes nothing.
    Check(JsonArgs),
    /// Change the policy so that a refused call is permitted: the smallest change, shown first and proven.
    Allow(AllowArgs),
    /// Try the policy out: tests, what it lets run, and what another one would have decided.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Tools from YAML files: check them, try them out.
    #[command(subcommand)]
    Manifest(ManifestCommand),
    /// The folders callers may work in.
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Take back what a call changed: content, permissions, and whether a file was there.
    Undo(UndoArgs),
    /// What happened: every call, sealed line by line.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// The calls of one trace, with the time of each stage.
    Trace(TraceArgs),
    /// The daemon's own log.
    Logs(LogsArgs),
    /// Run the daemon as a service of yours, by launchd or systemd.
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Speak MCP on standard input and output, for hosts that start a command; the daemon does the work.
    Mcp(McpArgs),
    /// Judge the tools of another agent program, which runs this before and after it uses them.
    #[command(subcommand)]
    Hook(HookCommand),
    /// Print the JSON Schema of a file or message; without a name, list them.
    Schema(SchemaArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Write the manual pages, one for each command, into a folder.
    Manual(ManualArgs),
    /// Look everything over and say what stands in the way: the walls, folders, sockets, policy, programs, disk and clock.
    Doctor(JsonArgs),
    /// See Sinew at work, in a temporary home that is removed afterwards.
    Demo,
    /// Show the help of a command, or of a topic: environment, exit-codes, files.
    Help(HelpArgs),
}

#[derive(Args)]
pub(crate) struct HelpArgs {
    /// The command, word by word, or the topic.
    #[arg(value_name = "COMMAND or TOPIC")]
    pub(crate) words: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Run although this is root. Tools then have root's powers: meant for tests and containers.
    #[arg(long)]
    pub(crate) allow_root: bool,
    /// Let debuggers attach and cores be written. Whoever runs as you can then read and change what the daemon knows.
    #[arg(long)]
    pub(crate) debuggable: bool,
}

#[derive(Args)]
pub(crate) struct WaitArgs {
    /// Until it takes calls, which is what is waited for anyway; for those who like to say so.
    #[arg(long)]
    pub(crate) ready: bool,
    /// Give up after this many seconds, with exit code 6.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u64).range(0..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Args)]
pub(crate) struct McpArgs {
    /// Do not start a daemon: refuse where none runs, and wait for one that goes away to come back.
    #[arg(long)]
    pub(crate) no_start: bool,
}

#[derive(Args)]
#[command(override_usage = "sinew call [OPTIONS] <TOOL> [KEY=VALUE]... [--json [ARGS]]")]
pub(crate) struct CallArgs {
    /// The tool, then its arguments: `key=value`, or `key:=JSON` for a value that is not text.
    #[arg(value_name = "TOOL KEY=VALUE", required_unless_present = "json", num_args = 1.., add = tool_names(ToolNames::First))]
    pub(crate) words: Vec<String>,
    /// Answer in JSON; followed by an object, take the arguments from it (`-` reads them from standard input).
    #[arg(long, value_name = "ARGS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) json: Option<String>,
    /// Give up after this many milliseconds, waiting included.
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).range(1..))]
    pub(crate) deadline_ms: Option<u64>,
    /// Do not wait where a human must decide: end with the approval's id, and exit code 4.
    #[arg(long = "async")]
    pub(crate) no_wait: bool,
    /// Use the answer to this approval, which an earlier call of the same kind asked for.
    #[arg(long, value_name = "ID")]
    pub(crate) approval_id: Option<String>,
    /// Mark the call: one of the same key within 24 hours is not run again, and says how the first one ended.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Check by the tool's schema alone, without the curated map. Needs a daemon; it is announced and on record.
    #[arg(long)]
    pub(crate) skip_guardrail: bool,
}

#[derive(Args)]
#[command(override_usage = "sinew explain [OPTIONS] <TOOL> [KEY=VALUE]... [--json [ARGS]]")]
pub(crate) struct ExplainArgs {
    /// The tool, then its arguments: `key=value`, or `key:=JSON` for a value that is not text.
    #[arg(value_name = "TOOL KEY=VALUE", required_unless_present = "json", num_args = 1.., add = tool_names(ToolNames::First))]
    pub(crate) words: Vec<String>,
    /// Answer in JSON; followed by an object, take the arguments from it (`-` reads them from standard input).
    #[arg(long, value_name = "ARGS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) json: Option<String>,
    /// Judge in this mode instead of the one that holds.
    #[arg(long, value_parser = mode())]
    pub(crate) mode: Option<Mode>,
}

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// One line a tool.
    List {
        /// Only tools that may run in this mode.
        #[arg(long, value_parser = mode())]
        mode: Option<Mode>,
        /// Only tools of this category.
        #[arg(long, value_parser = category)]
        category: Option<Category>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// What a tool takes, gives and may do.
    Show {
        /// Its name or alias.
        #[arg(add = tool_names(ToolNames::Alone))]
        name: String,
        #[command(flatten)]
        output: JsonArgs,
    },
}

/// The names that a shell offers where a tool is to be named.
fn tool_names(place: ToolNames) -> ArgValueCompleter {
    ArgValueCompleter::new(place)
}

/// The modes by name, which completions and the help list.
fn mode() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str)).try_map(|name| name.parse::<Mode>())
}

fn category(text: &str) -> Result<Category, String> {
    Category::try_from(text.to_owned()).map_err(|error| error.to_string())
}

#[derive(Args, Clone, Copy)]
pub(crate) struct JsonArgs {
    /// Answer in JSON with a `schema_version`.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum ModeCommand {
    /// Show the mode.
    Get(JsonArgs),
    /// Change the mode, along the ways there are, or confirm what a rule proposes.
    Set {
        /// The new mode.
        #[arg(value_parser = mode())]
        mode: Mode,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Show when the mode changed, why, and by whom. Needs no daemon.
    History {
        /// At most so many changes, the newest.
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Args)]
pub(crate) struct ChangeArgs {
    /// Why, for the record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct CancelArgs {
    /// The calls, as `sinew ps` names them.
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<CallId>,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct UndoArgs {
    /// The id of the call, as its result and the ledger name it.
    pub(crate) call_id: CallId,
    /// Change nothing, and show what would happen.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct ReloadArgs {
    /// Take also what lets more happen than before.
    #[arg(long)]
    pub(crate) accept: bool,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting with its value. Secrets are left out.
    Show(ConfigShowArgs),
}

#[derive(Args)]
pub(crate) struct ConfigShowArgs {
    /// Also where each value comes from: built in, a line of sinew.yaml, or a variable of this shell. A daemon that launchd
    /// or systemd started has variables of its own. With --json it is always told.
    #[arg(long)]
    pub(crate) origin: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct InitArgs {
    /// Also add this folder as a workspace.
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Replace files that were edited; their old content is kept beside them.
    #[arg(long)]
    pub(crate) force: bool,
    /// Also set an operator PIN: without it nothing is approved, not even by a process that runs as you.
    #[arg(long)]
    pub(crate) pin: bool,
    #[command(flatten)]
    pub(crate) pin_source: PinArgs,
}

#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Let callers work in a folder.
    Add {
        /// The folder.
        dir: PathBuf,
        /// They may look, not touch.
        #[arg(long)]
        read_only: bool,
    },
    /// Show the folders.
    List(JsonArgs),
    /// Take a folder away.
    Remove {
        /// The folder.
        dir: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct SchemaArgs {
    /// Which schema.
    pub(crate) name: Option<String>,
}

#[derive(Args)]
pub(crate) struct ManualArgs {
    /// The folder, such as `~/.local/share/man/man1`. It is made if it is not there.
    pub(crate) dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// For this shell.
    pub(crate) shell: Shell,
}
