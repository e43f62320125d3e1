//! Command-line grammar of `sinew policy` and `sinew allow`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use jiff::Timestamp;
use tool::Mode;

use super::approvals::parse_duration;
use super::moment::moment;
use super::{JsonArgs, PinArgs, mode_parser};

#[derive(Args)]
pub(crate) struct AllowArgs {
    /// Whole id of the refused call, from the reply or the ledger. Without it, the last refused calls are listed.
    pub(crate) call_id: Option<String>,
    /// Write the change without a confirmation prompt: the narrowest one, or the one of `--choose`.
    #[arg(long, requires = "call_id")]
    pub(crate) yes: bool,
    /// Number of the proposal to write, as they are listed.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub(crate) choose: u8,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
#[command(group = ArgGroup::new("action").required(true).args(["duration", "stop", "finish"]))]
pub(crate) struct RecordArgs {
    /// Start a recording that ends by itself after this time, such as `90s`, `30m` or `1h`.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Workspace to record; without it, the one that contains the current folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// End the recording.
    #[arg(long)]
    pub(crate) stop: bool,
    /// End the recording, and propose a policy that allows the recorded calls.
    #[arg(long)]
    pub(crate) finish: bool,
    /// Write the proposed `tools.yaml` to this file, which must not exist.
    #[arg(long, value_name = "FILE", requires = "finish", conflicts_with = "apply")]
    pub(crate) write: Option<PathBuf>,
    /// Write the proposal to your `tools.yaml`. The daemon reads it like any other edit.
    #[arg(long, requires = "finish")]
    pub(crate) apply: bool,
    /// Start without a confirmation prompt.
    #[arg(long, requires = "duration")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
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
    /// Show which tools run without approval in which mode.
    Reach {
        /// Only in this mode.
        #[arg(long, value_parser = mode_parser())]
        mode: Option<Mode>,
        /// Also show the paths, programs and hosts of each tool.
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Compare two policies by what they permit: each change of a verdict with a call that shows it, and each
    /// difference of the rules.
    Diff {
        /// First policy: a folder of governance files, one such file (your other files stay), `effective` for the
        /// current policy, or `built-in`.
        #[arg(value_name = "A")]
        before: String,
        /// Second policy, in the same form.
        #[arg(value_name = "B")]
        after: String,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Find a call with an effect that the policy permits, or show that there is none. Exits with 0 if there is one,
    /// with 1 if there is none, and with 5 if the question could not be decided.
    #[command(after_help = policy_tools::prove::EXPRESSION_GRAMMAR)]
    Prove {
        /// Question, such as "write below src without human".
        #[arg(value_name = "EXPR", required = true, num_args = 1..)]
        question: Vec<String>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Compare another policy with the current one and list the recorded calls it would decide differently.
    Replay {
        /// Other policy: a folder of governance files, one such file (your other files stay), `built-in`, or
        /// `effective` for calls that were recorded under an earlier policy.
        #[arg(long, value_name = "POLICY")]
        against: String,
        /// Earliest time of the calls: `7d` or `12h` ago, or a time such as 2026-01-31T12:00:00Z.
        #[arg(long, value_name = "WHEN", value_parser = moment, default_value = "7d")]
        since: Timestamp,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Record what a project needs: for a limited time, calls in one workspace that only an allowlist of their
    /// tool refuses are permitted. Then propose a policy that allows them.
    Record(RecordArgs),
    /// Suggest changes that remove unneeded approvals and unused permissions, each checked by replay.
    Suggest {
        /// Start of the period: `7d` or `12h` ago, or a time such as 2026-01-31T12:00:00Z.
        #[arg(long, value_name = "WHEN", value_parser = moment, default_value = "7d")]
        since: Timestamp,
        /// Write the change with this number to your file. The daemon reads it like any other edit.
        #[arg(long, value_name = "N")]
        apply: Option<usize>,
        #[command(flatten)]
        output: JsonArgs,
    },
}
