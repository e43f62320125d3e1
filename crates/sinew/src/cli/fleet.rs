//! Grammar of `sinew fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::JsonArgs;

#[derive(Subcommand)]
pub(crate) enum FleetCommand {
    /// Create the keys, the server configuration and the streams of the fleet that fleet.yaml describes.
    Init {
        #[command(flatten)]
        file: FleetFileArgs,
        /// Print the server configuration, and change nothing on the servers.
        #[arg(long)]
        print: bool,
    },
    /// Invite a host: print a token that it can use once.
    Invite {
        /// Name of the host: letters a-z, digits and `-`.
        host: String,
        /// Group whose policy the host takes.
        #[arg(long, default_value = "default")]
        group: String,
        #[command(flatten)]
        file: FleetFileArgs,
    },
    /// Join a fleet on this host. The keys are made here and never leave it.
    Join {
        /// Token that `sinew fleet invite` printed.
        token: String,
    },
    /// Admit a host that has used its token.
    Admit {
        /// Name of the host.
        host: String,
        /// Fingerprint that `sinew fleet join` printed on the host. Without it, you are asked to compare.
        #[arg(long)]
        fingerprint: Option<String>,
        #[command(flatten)]
        file: FleetFileArgs,
    },
    /// Remove a host or an invitation from the fleet.
    Remove {
        /// Name of the host.
        host: String,
        #[command(flatten)]
        file: FleetFileArgs,
    },
    /// Leave the fleet on this host. The policy files stay, and the mode is yours again.
    Leave,
    /// List the hosts with presence, version, mode, policy, ledger head, lag and clock difference.
    Hosts {
        #[command(flatten)]
        file: FleetFileArgs,
        /// Longest wait for heartbeats, in seconds. The command ends as soon as every host was seen.
        #[arg(long, value_name = "S", default_value = "16")]
        seconds: u64,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Show the membership of this host, and what is wrong with it.
    Doctor(JsonArgs),
    /// Sign and publish policy, or show which host has which.
    #[command(subcommand)]
    Policy(FleetPolicyCommand),
    /// Set the mode of the fleet, and count the hosts that confirm it.
    Mode {
        /// Mode.
        #[arg(value_enum)]
        mode: FleetModeName,
        #[command(flatten)]
        change: FleetModeArgs,
    },
    /// Lock down all hosts, and count those that confirm it. Same as `fleet mode lockdown`.
    Lockdown(FleetModeArgs),
    /// Sign a beacon every five seconds and the policy pointers every hour. Runs until it is stopped.
    Beacon {
        #[command(flatten)]
        file: FleetFileArgs,
    },
    /// Verify or read the mirrored ledgers.
    #[command(subcommand)]
    Ledger(FleetLedgerCommand),
}

/// Mode of a fleet.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FleetModeName {
    /// No restriction.
    Normal,
    /// Changes need approval.
    Alert,
    /// No tool changes anything.
    Lockdown,
}

#[derive(Args)]
pub(crate) struct FleetFileArgs {
    /// Description of the fleet. Its keys are in the folder `keys` beside it.
    #[arg(long = "file", value_name = "FILE", default_value = "fleet.yaml")]
    pub(crate) path: PathBuf,
}

#[derive(Args)]
pub(crate) struct FleetModeArgs {
    /// Reason, which every host records.
    #[arg(long, default_value = "set by the operator of the fleet")]
    pub(crate) reason: String,
    /// Longest wait for confirmations, in seconds.
    #[arg(long, value_name = "S", default_value = "5")]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) file: FleetFileArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Subcommand)]
pub(crate) enum FleetPolicyCommand {
    /// Sign the policy files of a folder and publish them to a group.
    Push {
        /// Folder with tools.yaml, modes.yaml, safety.yaml or guardrails.yaml.
        dir: PathBuf,
        /// Group of hosts.
        #[arg(long, default_value = "default")]
        group: String,
        /// Days for which hosts take the bundle.
        #[arg(long, value_name = "N", default_value = "365")]
        days: u64,
        #[command(flatten)]
        file: FleetFileArgs,
    },
    /// Show the published revision, and the revision and its state on each host.
    Status {
        /// Group of hosts.
        #[arg(long, default_value = "default")]
        group: String,
        /// Longest wait for heartbeats, in seconds.
        #[arg(long, value_name = "S", default_value = "16")]
        seconds: u64,
        #[command(flatten)]
        file: FleetFileArgs,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Args)]
pub(crate) struct FleetLedgerArgs {
    /// Host whose ledger to read.
    #[arg(long, conflicts_with = "all", required_unless_present = "all")]
    pub(crate) host: Option<String>,
    /// Read the ledgers of all hosts.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) file: FleetFileArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Subcommand)]
pub(crate) enum FleetLedgerCommand {
    /// Verify signatures, hashes and order of every mirrored batch.
    Verify(FleetLedgerArgs),
    /// Print mirrored records that match, oldest first.
    Query {
        #[command(flatten)]
        from: FleetLedgerArgs,
        /// Kind of record, such as `refusal`.
        #[arg(long)]
        kind: Option<String>,
        /// Name of the tool.
        #[arg(long)]
        tool: Option<String>,
    },
    /// Print the last mirrored records.
    Tail {
        #[command(flatten)]
        from: FleetLedgerArgs,
        /// Number of records of each host.
        #[arg(short = 'n', long, default_value = "10")]
        lines: usize,
    },
}
