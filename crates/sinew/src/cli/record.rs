//! Command-line grammar of the ledger, traces and the daemon's log.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use ledger::RecordFilter;
use tool::Mode;

use super::JsonArgs;

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
        format: LedgerExportFormat,
        /// Write to this file instead of standard output; it must not exist.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LedgerExportFormat {
    Ndjson,
    Csv,
}

/// Record filter. A field that is absent matches every record.
#[derive(Args)]
pub(crate) struct FilterArgs {
    /// Kind of record: decision, outcome (both include call), call, refusal, mode, start, stop, …
    #[arg(long)]
    kind: Option<String>,
    /// Tool name.
    #[arg(long)]
    tool: Option<String>,
    /// Outcome: done, failed, unknown or refused.
    #[arg(long)]
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
    /// Earliest time: 30s, 10m, 2h or 7d ago, or a time such as 2026-01-31T12:00:00Z.
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
    #[arg(long, value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Minimum severity: error, warn, info, debug or trace.
    #[arg(long, default_value = "trace")]
    pub(crate) level: tracing::Level,
    /// Print raw log lines, one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses `30s`, `10m`, `2h`, `7d` or `2w` (ago), or an RFC 3339 time.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    match parse_ago(text) {
        Some(duration) => {
            Timestamp::now().checked_sub(duration).map_err(|_| format!("`{text}` is too long ago"))
        }
        None => text
            .parse()
            .map_err(|_| "write 30s, 10m, 2h or 7d ago, or a time such as 2026-01-31T12:00:00Z".to_owned()),
    }
}

fn parse_ago(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
    Some(SignedDuration::from_secs(i64::from(count).checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_and_absolute_times_are_parsed() {
        for (text, seconds) in
            [("0s", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("1w", 604_800)]
        {
            assert_eq!(parse_ago(text), Some(SignedDuration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "m", "-1m", "1.5h", "10", "ten m", "10 m", "4294967296s", "yesterday"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
        assert_eq!(moment("2026-01-31T12:00:00Z").unwrap().as_second(), 1_769_860_800);
        assert!(moment("4294967295w").is_err(), "before the earliest timestamp");
    }
}
