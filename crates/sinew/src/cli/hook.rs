//! Command-line grammar of `sinew hook` and `sinew service`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::JsonArgs;
use crate::service::ServiceManagerKind;

#[derive(Subcommand)]
pub(crate) enum HookCommand {
    /// Judge a tool call of the host: read its JSON from standard input, write one JSON object to standard
    /// output.
    PreToolUse {
        /// Behaviour if the call cannot be judged.
        #[arg(long, value_enum, default_value_t = FailMode::Closed, value_name = "BEHAVIOUR")]
        fail: FailMode,
        #[command(flatten)]
        args: HookArgs,
    },
    /// Review the result of a tool call of the host, with the same input and output. Never blocks.
    PostToolUse(HookArgs),
    /// Add the hook to the settings of a host. Other settings are unchanged.
    Install(InstallArgs),
    /// Remove the hook from the settings of a host. Other settings are unchanged.
    Uninstall(HookUninstallArgs),
}

#[derive(Args, Clone)]
pub(crate) struct HookArgs {
    /// Host program whose event is on standard input.
    #[arg(long, value_enum, default_value_t = HostName::ClaudeCode)]
    pub(crate) host: HostName,
    /// Give up after this many milliseconds, at most 8 seconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline_ms: Option<u64>,
    /// Sinew home to use instead of `SINEW_HOME` or the default.
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
}

/// Behaviour if a call cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailMode {
    /// Block the call.
    Closed,
    /// Leave the decision to the host's own rules and warn its user.
    Open,
}

#[derive(Args)]
pub(crate) struct InstallArgs {
    /// Host program.
    pub(crate) host: HostName,
    /// Settings file to change.
    #[arg(long, value_enum, default_value_t = HostSettingsScope::User)]
    pub(crate) scope: HostSettingsScope,
    /// Print the new settings without writing them.
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Args)]
pub(crate) struct HookUninstallArgs {
    /// Host program.
    pub(crate) host: HostName,
    /// Settings file to change.
    #[arg(long, value_enum, default_value_t = HostSettingsScope::User)]
    pub(crate) scope: HostSettingsScope,
}

/// Supported host programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostName {
    /// Claude Code.
    ClaudeCode,
    /// Codex.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// Cursor.
    Cursor,
}

impl HostName {
    /// Returns the name of the host table.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            HostName::ClaudeCode => "claude-code",
            HostName::Codex => "codex",
            HostName::GeminiCli => "gemini-cli",
            HostName::Cursor => "cursor",
        }
    }
}

/// Settings file of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostSettingsScope {
    /// The user's settings, for all projects.
    User,
    /// The project's settings, shared with its other users.
    Project,
    /// The project's settings on this machine only (Claude Code).
    Local,
}

#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the service files and start the service. Run it again to update the files.
    Install(ServiceInstallArgs),
    /// Stop the service and remove its files. Configuration, state and ledger are not removed.
    Uninstall,
    /// Start the service.
    Start,
    /// Stop the service until it is started again.
    Stop,
    /// Restart the service.
    Restart,
    /// Show whether the service is installed and its manager's status report (does not start it).
    Status(JsonArgs),
}

#[derive(Args)]
pub(crate) struct ServiceInstallArgs {
    /// Service manager; default is the one of this system.
    #[arg(long, value_enum)]
    pub(crate) platform: Option<ServiceManagerKind>,
    /// Print the files without writing them, on any system.
    #[arg(long)]
    pub(crate) print: bool,
}
