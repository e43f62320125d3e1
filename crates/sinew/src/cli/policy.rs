//! The words for trying a policy out.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use tool::Mode;

use super::{JsonArgs, mode};
use crate::moment;

#[derive(Args)]
pub(crate) struct AllowArgs {
    /// The call, by the id its refusal has in the reply and in the ledger.
    pub(crate) call_id: String,
    /// Write the change without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Run a file of calls and what must become of each. Ends with 1 if one comes out otherwise.
    Test {
        /// The file: `cases`, each with tool, arguments, mode and expect (allow, ask or deny).
        file: PathBuf,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Everything that can run without a human being asked.
    Reach {
        /// Only in this mode.
        #[arg(long, value_parser = mode())]
        mode: Option<Mode>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Which recorded calls another policy would have decided otherwise, and how it differs from the one in force.
    Replay {
        /// The folder of the other policy's files.
        #[arg(long, value_name = "DIR")]
        against: PathBuf,
        /// Only calls since then: `7d`, `12h`, or a time.
        #[arg(long, value_name = "WHEN", value_parser = moment::parse, default_value = "7d")]
        since: Timestamp,
        #[command(flatten)]
        output: JsonArgs,
    },
}
