//! Command-line grammar of the ledger, traces and the daemon's log.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use ledger::Filter;
use tool::Mode;

use super::JsonArgs;
use crate::moment;

#[derive(Subcommand)]
pub(crate) enum LedgerCommand {
    /// Show the newest records.
    Tail {
        /// Number of records.
        #[arg(short = 'n', long, default_value_t = 20)]
        count: usize,
        /// Keep printing new records.
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Show matching records, newest last.
    Query {
        #[command(flatten)]
        filter: FilterArgs,
        /// Show at most this many records, the newest.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Show all records of a call, or one record by sequence number.
    Show {
        /// Call id or sequence number.
        id: String,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Verify every byte against the hash chain and its anchors.
    Verify(JsonArgs),
    /// Export matching records, oldest first.
    Export {
        #[command(flatten)]
        filter: FilterArgs,
        /// Output format.
        #[arg(long, value_enum, default_value = "ndjson")]
        format: ExportForm,
        /// Write to this file instead of standard output; it must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ExportForm {
    Ndjson,
    Csv,
}

/// Record filter. A field that is absent matches every record.
#[derive(Args)]
pub(crate) struct FilterArgs {
    /// Kind of record: decision, outcome, refusal, mode, start, stop, …
    #[arg(long)]
    kind: Option<String>,
    /// Tool name.
    #[arg(long)]
    tool: Option<String>,
    /// Outcome: done, failed, unknown or refused.
    #[arg(long)]
    outcome: Option<String>,
    /// Mode in which the call was judged.
    #[arg(long, value_parser = super::mode())]
    mode: Option<Mode>,
    /// Client name, or `uid N`.
    #[arg(long)]
    caller: Option<String>,
    /// Worker session.
    #[arg(long)]
    session: Option<String>,
    /// Trace id, 32 hexadecimal digits.
    #[arg(long)]
    trace: Option<String>,
    /// Earliest time: 30s, 10m, 2h or 7d ago, or a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_parser = moment::parse)]
    since: Option<Timestamp>,
    /// Latest time (exclusive), in the same form.
    #[arg(long, value_parser = moment::parse)]
    until: Option<Timestamp>,
}

impl From<FilterArgs> for Filter {
    fn from(args: FilterArgs) -> Filter {
        let FilterArgs { kind, tool, outcome, mode, caller, session, trace, since, until } = args;
        Filter { kind, tool, outcome, mode, caller, session, trace, since, until, ..Filter::default() }
    }
}

#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Trace id, or id of one of its calls.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Keep printing new lines.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Earliest time: 30s, 10m, 2h or 7d ago, or a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_parser = moment::parse)]
    pub(crate) since: Option<Timestamp>,
    /// Lowest severity: error, warn, info, debug or trace.
    #[arg(long, default_value = "trace")]
    pub(crate) level: tracing::Level,
    /// Print the lines as in the log file: one JSON object each.
    #[arg(long)]
    pub(crate) json: bool,
}
