//! The words of `sinew hook`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand)]
pub(crate) enum HookCommand {
    /// Judge a tool call of the host: its JSON on standard input, one JSON object on standard output.
    PreToolUse {
        /// What becomes of a call that cannot be judged.
        #[arg(long, value_enum, default_value_t = Fail::Closed, value_name = "HOW")]
        fail: Fail,
        #[command(flatten)]
        args: HookArgs,
    },
    /// Look at what a tool call of the host came to: the same way in and out. Never blocks.
    PostToolUse(HookArgs),
    /// Write the hook into the settings of a host. What else is in them stays as it is.
    Install(InstallArgs),
    /// Take the hook out of the settings of a host. What else is in them stays as it is.
    Uninstall(UninstallArgs),
}

#[derive(Args, Clone)]
pub(crate) struct HookArgs {
    /// Give up sooner than after 8 seconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline_ms: Option<u64>,
    /// Use this home, whatever the environment says.
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
}

/// What becomes of a call that cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fail {
    /// It is blocked.
    Closed,
    /// The host's own rules decide, and its user is told.
    Open,
}

#[derive(Args)]
pub(crate) struct InstallArgs {
    /// Which host.
    pub(crate) host: HostName,
    /// Whose settings.
    #[arg(long, value_enum, default_value_t = Scope::User)]
    pub(crate) scope: Scope,
    /// Print what would be written, and write nothing.
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Args)]
pub(crate) struct UninstallArgs {
    /// Which host.
    pub(crate) host: HostName,
    /// Whose settings.
    #[arg(long, value_enum, default_value_t = Scope::User)]
    pub(crate) scope: Scope,
}

/// The hosts there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostName {
    /// Claude Code.
    ClaudeCode,
}

/// Which of a host's settings files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// The person's own, for all projects.
    User,
    /// This project's, shared with others who work on it.
    Project,
    /// This project's, on this machine alone.
    Local,
}
