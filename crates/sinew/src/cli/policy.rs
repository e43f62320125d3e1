//! Command-line grammar of `sinew policy` and `sinew allow`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use tool::Mode;

use super::record::moment;
use super::{JsonArgs, mode_parser};

#[derive(Args)]
pub(crate) struct AllowArgs {
    /// Id of the refused call, from the reply or the ledger.
    pub(crate) call_id: String,
    /// Write the change without a confirmation prompt.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Run a file of test cases against the policy. Exits with 1 if a case fails.
    Test {
        /// Test file: `cases`, each with tool, arguments, mode and expect (allow, ask or deny).
        file: PathBuf,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// List everything that can run without approval.
    Reach {
        /// Only in this mode.
        #[arg(long, value_parser = mode_parser())]
        mode: Option<Mode>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Compare another policy with the current one and list the recorded calls it would decide differently.
    Replay {
        /// Folder with the files of the other policy.
        #[arg(long, value_name = "DIR")]
        against: PathBuf,
        /// Earliest time of the calls: `7d` or `12h` ago, or a time such as 2026-01-31T12:00:00Z.
        #[arg(long, value_name = "WHEN", value_parser = moment, default_value = "7d")]
        since: Timestamp,
        #[command(flatten)]
        output: JsonArgs,
    },
}
