//! The words for looking back: the ledger, traces and the daemon's log.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use ledger::Filter;
use tool::Mode;

use super::JsonArgs;
use crate::moment;

#[derive(Subcommand)]
pub(crate) enum LedgerCommand {
    /// The newest records.
    Tail {
        /// How many.
        #[arg(short = 'n', long, default_value_t = 20)]
        count: usize,
        /// Go on with what comes.
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Records that match, newest last.
    Query {
        #[command(flatten)]
        filter: FilterArgs,
        /// At most this many, the newest.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Everything about one call, or one record by its number.
    Show {
        /// A call id or a number.
        id: String,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Check every byte against the chain and its anchors.
    Verify(JsonArgs),
    /// Write matching records out, oldest first.
    Export {
        #[command(flatten)]
        filter: FilterArgs,
        /// In which form.
        #[arg(long, value_enum, default_value = "ndjson")]
        format: ExportForm,
        /// To this file instead of standard output; it must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ExportForm {
    Ndjson,
    Csv,
}

/// What records must be like; what is not said matches all.
#[derive(Args)]
pub(crate) struct FilterArgs {
    /// The kind of record: decision, outcome, refusal, mode, start, stop, …
    #[arg(long)]
    kind: Option<String>,
    /// The tool.
    #[arg(long)]
    tool: Option<String>,
    /// done, failed, unknown or refused.
    #[arg(long)]
    outcome: Option<String>,
    /// The mode it was judged in.
    #[arg(long, value_parser = super::mode())]
    mode: Option<Mode>,
    /// What the client calls itself, or `uid N`.
    #[arg(long)]
    caller: Option<String>,
    /// The worker session.
    #[arg(long)]
    session: Option<String>,
    /// The trace, in 32 hexadecimal digits.
    #[arg(long)]
    trace: Option<String>,
    /// Not before: 30s, 10m, 2h, 7d, or a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_parser = moment::parse)]
    since: Option<Timestamp>,
    /// Before.
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
    /// A trace id, or the id of one of its calls.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Go on with what comes.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Not before: 30s, 10m, 2h, 7d, or a time such as 2026-01-31T12:00:00Z.
    #[arg(long, value_parser = moment::parse)]
    pub(crate) since: Option<Timestamp>,
    /// Not less severe than this: error, warn, info, debug or trace.
    #[arg(long, default_value = "trace")]
    pub(crate) level: tracing::Level,
    /// The lines as they are in the file: one JSON object each.
    #[arg(long)]
    pub(crate) json: bool,
}
