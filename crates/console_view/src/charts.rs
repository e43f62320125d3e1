//! Charts of the overview: calls per interval by outcome, percentiles of the latency, the rules that refuse
//! most, and the modes on the same time axis.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::economics::{RuleEconomics, economics};
use crate::ledger_row::{LedgerRow, RowOutcome};

/// Number of intervals of a chart.
const INTERVALS: i64 = 60;
/// Number of rules in the list of refusing rules.
const TOP_RULES: usize = 8;

/// Counts of calls that ended in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MinuteCounts {
    /// Start of the interval.
    pub start_ms: i64,
    /// Calls that ended as intended.
    pub done: u32,
    /// Calls whose tool failed.
    pub failed: u32,
    /// Calls that a rule refused.
    pub refused: u32,
    /// Requests for approval.
    pub asked: u32,
}

/// Percentiles of the latency without the wait for the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Calls that were counted.
    pub calls: usize,
    /// Median.
    pub p50_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
}

/// Part of the time axis in one mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModeSpan {
    /// Start of the span.
    pub from_ms: i64,
    /// End of the span.
    pub to_ms: i64,
    /// Mode.
    pub mode: String,
}

/// Rule with the number of calls that it refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusingRule {
    /// Rule as `file:line id`, or the refusal in words if no rule is named.
    pub rule: String,
    /// Refused calls.
    pub calls: usize,
    /// Tool of the last one.
    pub tool: String,
}

/// Everything that the overview shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Charts {
    /// Start of the time axis.
    pub from_ms: i64,
    /// End of the time axis.
    pub to_ms: i64,
    /// Length of one interval.
    pub interval_ms: i64,
    /// Time of the oldest row that was counted, if the axis begins earlier.
    pub covered_from_ms: Option<i64>,
    /// Counts by interval.
    pub intervals: Vec<MinuteCounts>,
    /// Sums of the intervals.
    pub total: MinuteCounts,
    /// Latency of all calls that ended.
    pub latency: Percentiles,
    /// Rules that refused most.
    pub refusing: Vec<RefusingRule>,
    /// Modes on the time axis.
    pub modes: Vec<ModeSpan>,
    /// Cost and results of the rules that ask.
    pub economics: Vec<RuleEconomics>,
}

impl Charts {
    /// Computes the charts of the last `minutes` before `now_ms` from rows in the order of time. `mode` is the
    /// current mode.
    pub fn new<'a>(
        rows: impl DoubleEndedIterator<Item = &'a LedgerRow>,
        now_ms: i64,
        minutes: u32,
        mode: &str,
    ) -> Charts {
        let interval_ms = i64::from(minutes.max(1)) * 60_000 / INTERVALS;
        // Whole intervals, so that bars do not change their counts while time passes.
        let to_ms = (now_ms / interval_ms + 1) * interval_ms;
        let from_ms = to_ms - INTERVALS * interval_ms;
        let all: Vec<&LedgerRow> = rows.collect();
        let oldest = all.first().filter(|row| row.seq > 1 && row.time_ms > from_ms).map(|row| row.time_ms);
        let rows: Vec<&LedgerRow> = all.into_iter().filter(|row| row.time_ms >= from_ms).collect();
        let intervals = intervals(&rows, from_ms, interval_ms);
        let total = intervals.iter().fold(MinuteCounts { start_ms: from_ms, ..Default::default() }, add);
        Charts {
            from_ms,
            to_ms,
            interval_ms,
            covered_from_ms: oldest,
            total,
            latency: percentiles(rows.iter().filter_map(|row| row.machine_us()).collect()),
            refusing: refusing(&rows),
            modes: mode_spans(&rows, from_ms, now_ms, mode),
            economics: economics(&rows),
            intervals,
        }
    }
}

fn add(sum: MinuteCounts, one: &MinuteCounts) -> MinuteCounts {
    MinuteCounts {
        start_ms: sum.start_ms,
        done: sum.done + one.done,
        failed: sum.failed + one.failed,
        refused: sum.refused + one.refused,
        asked: sum.asked + one.asked,
    }
}

fn intervals(rows: &[&LedgerRow], from_ms: i64, interval_ms: i64) -> Vec<MinuteCounts> {
    let start = |n: i64| MinuteCounts { start_ms: from_ms + n * interval_ms, ..Default::default() };
    let mut intervals: Vec<MinuteCounts> = (0..INTERVALS).map(start).collect();
    for row in rows {
        let place = usize::try_from((row.time_ms - from_ms) / interval_ms).unwrap_or_default();
        let Some(counts) = intervals.get_mut(place) else { continue };
        match row.outcome {
            RowOutcome::Done => counts.done += 1,
            RowOutcome::Failed => counts.failed += 1,
            RowOutcome::Refused => counts.refused += 1,
            RowOutcome::Approval if row.word == "requested" => counts.asked += 1,
            RowOutcome::Approval | RowOutcome::Permitted | RowOutcome::Event => {}
        }
    }
    intervals
}

/// Returns the percentiles by the nearest rank.
fn percentiles(mut latencies: Vec<u64>) -> Percentiles {
    latencies.sort_unstable();
    let rank = |percent: usize| {
        let place = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
        latencies.get(place).copied().unwrap_or_default()
    };
    Percentiles { calls: latencies.len(), p50_us: rank(50), p95_us: rank(95), p99_us: rank(99) }
}

fn refusing(rows: &[&LedgerRow]) -> Vec<RefusingRule> {
    let mut counts: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.outcome == RowOutcome::Refused) {
        let name = row.rule.clone().unwrap_or_else(|| row.word.clone());
        let entry = counts.entry(name).or_default();
        *entry = (entry.0 + 1, &row.tool);
    }
    let listed = counts.into_iter();
    let mut listed: Vec<RefusingRule> =
        listed.map(|(rule, (calls, tool))| RefusingRule { rule, calls, tool: tool.to_owned() }).collect();
    listed.sort_by_key(|rule| std::cmp::Reverse(rule.calls));
    listed.truncate(TOP_RULES);
    listed
}

fn mode_spans(rows: &[&LedgerRow], from_ms: i64, now_ms: i64, current: &str) -> Vec<ModeSpan> {
    let mut spans: Vec<ModeSpan> = Vec::new();
    let mut start = from_ms;
    for row in rows.iter().filter(|row| row.kind == "mode") {
        let before = row.word.split(' ').next().unwrap_or_default().to_owned();
        spans.push(ModeSpan { from_ms: start, to_ms: row.time_ms, mode: before });
        start = row.time_ms;
    }
    spans.push(ModeSpan { from_ms: start, to_ms: now_ms.max(start), mode: current.to_owned() });
    spans
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-31T12:00:30Z";

    fn charts(records: &[Value]) -> Charts {
        let rows: Vec<LedgerRow> = records.iter().map(LedgerRow::from_record).collect();
        Charts::new(rows.iter(), crate::ledger_row::time_ms(NOW), 60, "ALERT")
    }

    #[test]
    fn calls_are_counted_where_they_end() {
        let at = |seq: u64, time: &str, rest: Value| {
            let mut record = json!({"seq": seq, "time": format!("2026-01-31T{time}Z")});
            record.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            record
        };
        let rule = json!({"file": "tools.yaml", "line": 3, "id": "x"});
        let shown = charts(&[
            at(1, "10:00:00", json!({"kind": "call", "outcome": "done", "latency_us": 999})),
            at(2, "11:30:00", json!({"kind": "call", "outcome": "done", "latency_us": 10})),
            at(3, "11:59:00", json!({"kind": "mode", "from": "NORMAL", "to": "ALERT"})),
            at(4, "12:00:01", json!({"kind": "decision"})),
            at(5, "12:00:02", json!({"kind": "outcome", "outcome": "failed", "latency_us": 30})),
            at(
                6,
                "12:00:03",
                json!({"kind": "refusal", "code": "path_forbidden", "rule": rule, "tool": "w"}),
            ),
            at(7, "12:00:04", json!({"kind": "refusal", "code": "unknown_tool"})),
            at(
                8,
                "12:00:05",
                json!({"kind": "refusal", "code": "path_forbidden", "rule": rule, "tool": "r"}),
            ),
            at(9, "12:00:06", json!({"kind": "approval", "event": "requested", "id": "a"})),
        ]);
        let last = shown.intervals.last().unwrap();
        assert_eq!((last.done, last.failed, last.refused, last.asked), (0, 1, 3, 1), "{last:?}");
        assert_eq!(
            (shown.intervals.len(), shown.total.done),
            (60, 1),
            "the first call ended before the axis"
        );
        assert_eq!(shown.latency, Percentiles { calls: 2, p50_us: 10, p95_us: 30, p99_us: 30 });
        let rules: Vec<(&str, usize)> =
            shown.refusing.iter().map(|it| (it.rule.as_str(), it.calls)).collect();
        assert_eq!(rules, [("tools.yaml:3 x", 2), ("unknown tool", 1)]);
        let modes: Vec<&str> = shown.modes.iter().map(|span| span.mode.as_str()).collect();
        assert_eq!((modes, shown.covered_from_ms), (vec!["NORMAL", "ALERT"], None));
    }

    #[test]
    fn empty_ledger_has_an_axis_and_the_current_mode() {
        let shown = charts(&[]);
        assert_eq!(
            (shown.intervals.len(), shown.latency, shown.modes.len()),
            (60, Percentiles::default(), 1)
        );
        assert_eq!(shown.to_ms - shown.from_ms, 3_600_000);
    }
}
