//! Command-line grammar of `sinew service`.

use clap::{Args, Subcommand};

use super::JsonArgs;
use crate::service::Manager;

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
    pub(crate) platform: Option<Manager>,
    /// Print the files without writing them, on any system.
    #[arg(long)]
    pub(crate) print: bool,
}
