//! Command-line grammar. Parsing only: each command is implemented in its own file in `command/`.

mod approvals;
#[cfg(feature = "fleet")]
mod fleet;
mod help_pages;
mod hook;
mod machine;
mod manifest;
mod moment;
mod policy;
mod record;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, value_parser};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCompleter;
use ledger::CallIdPrefix;
use tool::{Category, Mode};

use crate::command::ToolNameCompleter;
use crate::presets::ProjectPreset;

pub(crate) use approvals::{
    ApprovalsCommand, ApproveArgs, CallersCommand, ConsoleArgs, DenyArgs, GrantDuration, PinArgs, PinCommand,
    SessionsCommand,
};
#[cfg(feature = "fleet")]
pub(crate) use fleet::{
    FleetCommand, FleetLedgerArgs, FleetLedgerCommand, FleetModeArgs, FleetModeName, FleetPolicyCommand,
};
pub(crate) use help_pages::command;
pub(crate) use hook::{
    FailMode, HookArgs, HookCommand, HookUninstallArgs, HostName, HostSettingsScope, InstallArgs,
    ServiceCommand, ServiceInstallArgs,
};
pub(crate) use machine::{BugreportArgs, ColorWhen, DoctorArgs, JsonArgs};
pub(crate) use manifest::{ManifestCommand, ManifestKind};
pub(crate) use policy::{AllowArgs, PolicyCommand, RecordArgs};
pub(crate) use record::{LedgerCommand, LedgerExportFormat, LogsArgs, RecordForm, TraceArgs};

const AFTER_HELP: &str = "\
Exit codes: 0 success, 1 tool failed, 2 usage error, 3 refused, 4 approval pending or timed out, 5 timed out, \
6 daemon unreachable, 7 bad configuration, 8 another process holds the state lock.

Environment: SINEW_HOME moves configuration, state and sockets below one folder; SINEW_LOG sets the log filter; \
NO_COLOR turns colours off; SINEW_PAGER or PAGER shows long output.

Files, below SINEW_HOME if it is set: config/ (sinew.yaml, governance/), tools/ (manifests), state/ (ledger, undo), \
log/ and run/ (agent.sock for agents, control.sock for you). `sinew doctor` shows where they are.

More: sinew help environment, sinew help exit-codes, sinew help files.";

/// Tool runtime for a local AI agent.
#[derive(Parser)]
#[command(name = "sinew", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Use colours: auto (on a terminal), always or never.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorWhen::Auto, hide_default_value = true, hide_possible_values = true)]
    pub(crate) color: ColorWhen,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Subcommand)]
pub(crate) enum CliCommand {
    /// Run the daemon in the foreground.
    Serve(ServeArgs),
    /// Stop the daemon: running calls may end first.
    Stop(JsonArgs),
    /// Call a tool, through the daemon if one runs, else in this process.
    Call(CallArgs),
    /// Explain how a call would be decided, without running it.
    Explain(ExplainArgs),
    /// List the tools, or show one.
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Show daemon status (does not start it).
    Status(JsonArgs),
    /// Wait until the daemon accepts calls (does not start it).
    Wait(WaitArgs),
    /// List calls in progress: being decided, waiting for approval or a free slot, running.
    Ps(JsonArgs),
    /// Cancel calls and end every process they started.
    Cancel(CancelArgs),
    /// Open, list or close worker sessions, each limited to the tools that it names.
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// List suspended callers, or let them call again.
    #[command(subcommand)]
    Callers(CallersCommand),
    /// Show, edit and watch pending approvals; list and revoke grants.
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// Serve the operator console: a page in the browser on this machine, until this command ends.
    Console(ConsoleArgs),
    /// Approve pending calls.
    Approve(ApproveArgs),
    /// Deny pending calls.
    Deny(DenyArgs),
    /// Set or remove the operator PIN, which is required to approve calls and to relax restrictions.
    #[command(subcommand)]
    Pin(PinCommand),
    /// Show or change the mode.
    #[command(subcommand)]
    Mode(ModeCommand),
    /// Lock down: no tool can change the machine or use the network. Same as `mode set LOCKDOWN`.
    Lockdown(ChangeArgs),
    /// Reload the configuration and show what changed. The daemon also reloads when a file changes.
    Reload(ReloadArgs),
    /// Write a small configuration to edit; the built-in one applies below it.
    Init(InitArgs),
    /// Show or change the settings and the policy.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check all configuration files, and report load errors, rules that never match and entries without effect.
    Check(JsonArgs),
    /// Propose policy changes that permit a refused call, narrowest first, and write the one you confirm.
    Allow(AllowArgs),
    /// Test the policy, list what it permits, replay recorded calls against another policy, or suggest changes.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Check, test, import and create tool manifests.
    #[command(subcommand)]
    Manifest(ManifestCommand),
    /// Manage the workspaces: the folders that tools may work in.
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Undo the file changes of a call: content, permissions and existence.
    Undo(UndoArgs),
    /// Query, verify and export the ledger of all calls.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Show the calls of a trace with the duration of each stage.
    Trace(TraceArgs),
    /// Show the daemon's log.
    Logs(LogsArgs),
    /// Run the daemon as a user service (launchd or systemd).
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Restart the running daemon with the installed program, for example after an upgrade. New calls wait meanwhile.
    Restart(JsonArgs),
    /// Remove the service, the hooks, the sockets and the completions. Shows the list first.
    Uninstall(UninstallArgs),
    /// Serve MCP by forwarding to the daemon: on standard input and output, or over HTTP.
    Mcp(McpArgs),
    /// Check the tool calls of another agent program, which runs this command before and after each call.
    #[command(subcommand)]
    Hook(HookCommand),
    /// Print the JSON Schema of a file or message. Without a name, list the schemas.
    Schema(SchemaArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Write the manual pages, one per command, into a folder.
    Manual(ManualArgs),
    /// Check the installation and report problems: sandbox, folders, sockets, policy, programs, disk, clock.
    Doctor(DoctorArgs),
    /// Write a redacted archive for a bug report: checks, status, log, and the outcomes of the last calls.
    Bugreport(BugreportArgs),
    /// Set up and operate a fleet: many hosts under one policy, with a second copy of every ledger.
    #[cfg(feature = "fleet")]
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Show the version of this program and of the daemon.
    Version(JsonArgs),
    /// Run a demonstration in a temporary home that is removed afterwards.
    Demo,
    /// Show the help of a command or a topic: environment, exit-codes, files.
    Help(HelpArgs),
}

#[derive(Args)]
pub(crate) struct HelpArgs {
    /// Command, one word per argument, or topic.
    #[arg(value_name = "COMMAND or TOPIC")]
    pub(crate) words: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Run as root. Tools then have root privileges: meant for tests and containers.
    #[arg(long)]
    pub(crate) allow_root: bool,
    /// Let debuggers attach and core files be written. Any process of your user can then read and change the
    /// daemon's memory.
    #[arg(long)]
    pub(crate) debuggable: bool,
    /// Check that this program can serve this home, print its version and exit. A restart runs this first.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Args)]
pub(crate) struct UninstallArgs {
    /// Also remove the configuration, the manifests, the ledger and all other state.
    #[arg(long)]
    pub(crate) purge: bool,
    /// Show what would be removed, and remove nothing.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Args)]
pub(crate) struct WaitArgs {
    /// Wait until the daemon accepts calls. This is the default; the flag makes it explicit in scripts.
    #[arg(long)]
    pub(crate) ready: bool,
    /// Give up after this many seconds, with exit code 6.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u64).range(0..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Args)]
pub(crate) struct McpArgs {
    /// Do not start a daemon: fail if none runs at the start. If the daemon restarts later, wait for it.
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Serve streamable HTTP on this loopback address, such as 127.0.0.1:8765, instead of standard input and
    /// output.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) http: Option<SocketAddr>,
    /// File with the bearer token of HTTP clients, with mode 0600. It is created if it does not exist. Default:
    /// `http.token` beside the sockets.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// End an HTTP session that has had no request and no listening client for this many seconds.
    #[arg(long, value_name = "SECONDS", requires = "http", default_value_t = 1800, value_parser = value_parser!(u64).range(1..))]
    pub(crate) session_timeout: u64,
}

#[derive(Args)]
#[command(override_usage = "sinew call [OPTIONS] <TOOL> [KEY=VALUE]... [--json [ARGS]]")]
pub(crate) struct CallArgs {
    /// Tool and its arguments: `key=value`, or `key:=JSON` for a value that is not text.
    #[arg(value_name = "TOOL KEY=VALUE", required_unless_present = "json", num_args = 1.., add = tool_name_completer(ToolNameCompleter::NameThenArguments))]
    pub(crate) words: Vec<String>,
    /// Print JSON. With an object as value, take the arguments from it (`-` reads them from standard input).
    #[arg(long, value_name = "ARGS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) json: Option<String>,
    /// Give up after this many milliseconds, including time spent waiting for approval.
    #[arg(long, value_name = "MS", value_parser = value_parser!(u64).range(1..))]
    pub(crate) deadline_ms: Option<u64>,
    /// Do not wait for approval: print the approval id and exit with code 4.
    #[arg(long = "async")]
    pub(crate) no_wait: bool,
    /// Use the decision on this approval request, which an earlier attempt of the same call created.
    #[arg(long, value_name = "ID")]
    pub(crate) approval_id: Option<String>,
    /// Idempotency key: a repeated call with the same key within 24 hours returns the first outcome and does
    /// not run again.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Check only the tool's schema and skip the curated map. Needs a daemon; the skip is recorded in the
    /// ledger.
    #[arg(long)]
    pub(crate) skip_guardrail: bool,
}

#[derive(Args)]
#[command(override_usage = "sinew explain [OPTIONS] <TOOL> [KEY=VALUE]... [--json [ARGS]]")]
pub(crate) struct ExplainArgs {
    /// Tool and its arguments: `key=value`, or `key:=JSON` for a value that is not text. Or the id of a recorded
    /// call, or its first 8 or more digits: shows how that call was decided.
    #[arg(value_name = "TOOL KEY=VALUE", required_unless_present = "json", num_args = 1.., add = tool_name_completer(ToolNameCompleter::NameThenArguments))]
    pub(crate) words: Vec<String>,
    /// Print JSON. With an object as value, take the arguments from it (`-` reads them from standard input).
    #[arg(long, value_name = "ARGS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) json: Option<String>,
    /// Judge in this mode instead of the current one.
    #[arg(long, value_parser = mode_parser())]
    pub(crate) mode: Option<Mode>,
}

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools, one per line.
    List {
        /// Only tools permitted in this mode.
        #[arg(long, value_parser = mode_parser())]
        mode: Option<Mode>,
        /// Only tools of this category.
        #[arg(long, value_parser = parse_category)]
        category: Option<Category>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Show the arguments, results and permissions of a tool.
    Show {
        /// Name or alias of the tool.
        #[arg(add = tool_name_completer(ToolNameCompleter::NameOnly))]
        name: String,
        #[command(flatten)]
        output: JsonArgs,
    },
}

/// Returns the shell completer for tool names.
fn tool_name_completer(place: ToolNameCompleter) -> ArgValueCompleter {
    ArgValueCompleter::new(place)
}

/// Parses a mode by name, with the names listed for completions and help.
fn mode_parser() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str)).try_map(|name| name.parse::<Mode>())
}

fn parse_category(text: &str) -> Result<Category, String> {
    Category::try_from(text.to_owned()).map_err(|error| error.to_string())
}

#[derive(Subcommand)]
pub(crate) enum ModeCommand {
    /// Show the mode.
    Get(JsonArgs),
    /// Change the mode along a permitted transition, or confirm a proposed one.
    Set {
        /// New mode.
        #[arg(value_parser = mode_parser())]
        mode: Mode,
        #[command(flatten)]
        change: ChangeArgs,
    },
    /// Show past mode changes with reason and author. Needs no daemon.
    History {
        /// Show at most this many changes, the newest ones.
        #[arg(long, value_name = "COUNT", default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Args)]
pub(crate) struct ChangeArgs {
    /// Reason to record in the ledger.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct CancelArgs {
    /// Ids of the calls, as `sinew ps` shows them; the first digits are enough.
    #[arg(value_name = "ID", required = true, value_parser = record::call_id_prefix)]
    pub(crate) ids: Vec<CallIdPrefix>,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct UndoArgs {
    /// Id of the call, from its result or the ledger; the first digits are enough.
    #[arg(value_parser = record::call_id_prefix, required_unless_present_any = ["last", "since"])]
    pub(crate) call_id: Option<CallIdPrefix>,
    /// Undo the last call that can be undone.
    #[arg(long, conflicts_with_all = ["call_id", "since"])]
    pub(crate) last: bool,
    /// Undo every call since this time, newest first, after one confirmation: 20m, 2h, today, "last night", ….
    #[arg(long, value_name = "WHEN", value_parser = moment::moment, conflicts_with = "call_id")]
    pub(crate) since: Option<jiff::Timestamp>,
    /// With --since: do not ask for confirmation.
    #[arg(long, requires = "since")]
    pub(crate) yes: bool,
    /// Show what would be undone and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct ReloadArgs {
    /// Also accept changes that permit more than before.
    #[arg(long)]
    pub(crate) accept: bool,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every setting with its value. Secrets are redacted.
    Show(ConfigShowArgs),
    /// List the configuration files, and show whether each exists.
    Path(JsonArgs),
    /// Show the value of a setting or of a policy key, such as `tools.run_command.memory_mb`.
    Get {
        /// Path of the key, with dots.
        key: String,
    },
    /// Set a setting or a policy key. The file is written only if it loads with the change.
    Set {
        /// Path of the key, with dots.
        key: String,
        /// Value, as YAML: `4096`, `[a, b]` or `{add: [c]}`.
        value: String,
    },
    /// Open a configuration file in the editor of $VISUAL or $EDITOR, and check it before it is replaced.
    Edit {
        /// File to edit.
        #[arg(default_value = "tools", value_parser = ["settings", "tools", "modes", "safety", "guardrails"])]
        file: String,
    },
}

#[derive(Args)]
pub(crate) struct ConfigShowArgs {
    /// Show the policy instead: your files merged with the built-in ones, with the origin of every line.
    #[arg(long, conflicts_with = "origin")]
    pub(crate) effective: bool,
    /// Also show the source of each value: built in, a line of sinew.yaml, or a variable of this shell. A
    /// daemon started by launchd or systemd has its own variables. JSON output always includes the source.
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
    /// Write a ready-made policy, after it was shown as a table.
    #[arg(long, conflicts_with = "full")]
    pub(crate) preset: Option<ProjectPreset>,
    /// Write every file with all its built-in content, in place of the built-in configuration.
    #[arg(long)]
    pub(crate) full: bool,
    /// Replace edited files; their old content is saved beside them.
    #[arg(long)]
    pub(crate) force: bool,
    /// Also set an operator PIN, which is then required to approve calls, even for processes of your user.
    #[arg(long)]
    pub(crate) pin: bool,
    #[command(flatten)]
    pub(crate) pin_source: PinArgs,
}

#[derive(Subcommand)]
pub(crate) enum WorkspaceCommand {
    /// Add a workspace.
    Add {
        /// Folder to add.
        dir: PathBuf,
        /// Permit reading only.
        #[arg(long)]
        read_only: bool,
        /// Also write this project policy to .sinew/policy.yaml.
        #[arg(long, value_enum, value_name = "PRESET")]
        preset: Option<ProjectPreset>,
    },
    /// List the workspaces.
    List(JsonArgs),
    /// Remove a workspace.
    Remove {
        /// Folder to remove.
        dir: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct SchemaArgs {
    /// Name of the schema.
    pub(crate) name: Option<String>,
}

#[derive(Args)]
pub(crate) struct ManualArgs {
    /// Target folder, such as `~/.local/share/man/man1`. Created if it does not exist.
    pub(crate) dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// Target shell.
    pub(crate) shell: Shell,
}
