//! Command-line grammar of `sinew policy`, `sinew allow` and `sinew manifest`.

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
        /// Only calls since: `7d`, `12h`, or a time.
        #[arg(long, value_name = "WHEN", value_parser = moment, default_value = "7d")]
        since: Timestamp,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Subcommand)]
pub(crate) enum ManifestCommand {
    /// Check manifests and report all problems. Exits with 7 on errors, with 0 if there are only warnings.
    Check {
        /// Files, or folders of manifests.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Test the examples of manifests against their schemas and validators. Read-only tools that name no path
    /// and need no approval are also run. Exits with 1 if an example fails.
    Test {
        /// Files, or folders of manifests.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: JsonArgs,
    },
}
