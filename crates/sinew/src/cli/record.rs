//! Command-line grammar of the ledger, traces and the daemon's log.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use ledger::{CallIdPrefix, LedgerEntry, RecordFilter};
use tool::Mode;

use super::JsonArgs;
use super::moment::moment;

/// Outcomes that `--outcome` accepts.
const OUTCOMES: [&str; 5] = ["done", "failed", "unknown", "not_started", "refused"];

#[derive(Subcommand)]
pub(crate) enum LedgerCommand {
    /// Show the newest calls, one per line.
    Tail {
        /// Number of calls and other events.
        #[arg(short = 'n', long, default_value_t = 20)]
        count: usize,
        /// Keep printing new calls.
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        form: RecordForm,
    },
    /// Show the matching calls, one per line, newest last.
    Query {
        #[command(flatten)]
        filter: FilterArgs,
        /// Show at most this many records, the newest.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        form: RecordForm,
    },
    /// Show a call: caller, rules, timeline, effects, receipt and how to undo it.
    Show {
        /// Call id, or the first digits of one; or the sequence number of a record.
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
        format: LedgerExportFormat,
        /// Write to this file instead of standard output; it must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Form of a list of records.
#[derive(Args, Clone, Copy)]
pub(crate) struct RecordForm {
    /// Show one line per record instead of one per call.
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Print the stored records, one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LedgerExportFormat {
    Ndjson,
    Csv,
}

/// Record filter. A field that is absent matches every record.
#[derive(Args)]
pub(crate) struct FilterArgs {
    /// Kind of record. A `call` is a decision and an outcome, and matches both.
    #[arg(long, value_parser = PossibleValuesParser::new(LedgerEntry::KINDS))]
    kind: Option<String>,
    /// Tool name.
    #[arg(long)]
    tool: Option<String>,
    /// Outcome of the call.
    #[arg(long, value_parser = PossibleValuesParser::new(OUTCOMES))]
    outcome: Option<String>,
    /// Mode in which the call was judged.
    #[arg(long, value_parser = super::mode_parser())]
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
    /// Earliest time: 30s, 10m, 2h or 7d ago, today, yesterday, "last night", a date, or RFC 3339.
    #[arg(long, value_parser = moment)]
    since: Option<Timestamp>,
    /// Latest time (exclusive), in the same form.
    #[arg(long, value_parser = moment)]
    until: Option<Timestamp>,
}

impl From<FilterArgs> for RecordFilter {
    fn from(args: FilterArgs) -> RecordFilter {
        let FilterArgs { kind, tool, outcome, mode, caller, session, trace, since, until } = args;
        RecordFilter {
            kind,
            tool,
            outcome,
            mode,
            caller,
            session,
            trace,
            since,
            until,
            ..RecordFilter::default()
        }
    }
}

#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Trace id, or id of one of its calls; the first digits are enough.
    #[arg(required_unless_present = "last")]
    pub(crate) id: Option<String>,
    /// Show the trace of the last call.
    #[arg(long, conflicts_with = "id")]
    pub(crate) last: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Keep printing new lines.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Show only this many lines, the newest.
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) lines: Option<usize>,
    /// Earliest time: 30s, 10m, 2h or 7d ago, today, yesterday, "last night", a date, or RFC 3339.
    #[arg(long, value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Minimum severity: error, warn, info, debug or trace.
    #[arg(long, default_value = "trace")]
    pub(crate) level: tracing::Level,
    /// Print raw log lines, one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses the first digits of a call id.
pub(super) fn call_id_prefix(text: &str) -> Result<CallIdPrefix, String> {
    CallIdPrefix::parse(text)
        .ok_or_else(|| "a call id, or its first 4 or more hexadecimal digits, is required".to_owned())
}
