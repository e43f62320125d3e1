//! The words of `sinew service`.

use clap::{Args, Subcommand};

use super::JsonArgs;
use crate::service::Manager;

#[derive(Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the service's files and start it. Doing it again brings them up to date.
    Install(ServiceInstallArgs),
    /// Stop the service and remove its files. Configuration, state and ledger stay.
    Uninstall,
    /// Start it.
    Start,
    /// Stop it, until it is started again.
    Stop,
    /// Stop it and start it.
    Restart,
    /// Show whether it is installed, and what its manager says of it. Never starts it.
    Status(JsonArgs),
}

#[derive(Args)]
pub(crate) struct ServiceInstallArgs {
    /// Whose files; this system's if not said.
    #[arg(long, value_enum)]
    pub(crate) platform: Option<Manager>,
    /// Show the files and write nothing, on any system.
    #[arg(long)]
    pub(crate) print: bool,
}
