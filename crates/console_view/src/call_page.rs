//! Page of one call: its records in order, the timeline of its stages, and what happened to it.

use serde::Serialize;
use serde_json::Value;

use crate::ledger_row::{LedgerRow, RowOutcome, rule_text, text, time_ms};
use crate::visible_text::{visible, visible_json};

/// Stage of a call on the timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineStage {
    /// Name of the stage.
    pub stage: String,
    /// Start after the arrival of the call.
    pub start_us: u64,
    /// Duration.
    pub duration_us: u64,
}

/// Page of one call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallPage {
    /// Id of the call.
    pub call_id: String,
    /// Tool.
    pub tool: String,
    /// Target of the call.
    pub target: String,
    /// Caller.
    pub caller: String,
    /// Mode in which it was judged.
    pub mode: String,
    /// Meaning of the last record.
    pub outcome: RowOutcome,
    /// Outcome in words.
    pub word: String,
    /// Message of a refusal or failure.
    pub message: String,
    /// Rules that decided, as `file:line id`.
    pub rules: Vec<String>,
    /// Time of the first record.
    pub time_ms: i64,
    /// Time from the request to the end.
    pub latency_us: Option<u64>,
    /// Stages in the order of their start.
    pub stages: Vec<TimelineStage>,
    /// Changed files.
    pub files: Value,
    /// True if the changes can be undone.
    pub undoable: bool,
    /// Trace of the call.
    pub trace_id: String,
    /// Resources that the call used.
    pub usage: Value,
    /// All records, oldest first.
    pub records: Vec<Value>,
}

impl CallPage {
    /// Builds the page from the records of a call, oldest first. Returns nothing without records.
    pub fn new(records: &[Value]) -> Option<CallPage> {
        let rows: Vec<LedgerRow> = records.iter().map(LedgerRow::from_record).collect();
        let first = rows.first()?;
        let last = rows.iter().rev().find(|row| row.ends_call()).or(rows.last())?;
        let field =
            |key: &str| records.iter().rev().find_map(|record| record.get(key)).unwrap_or(&Value::Null);
        let non_empty = |pick: fn(&LedgerRow) -> &str| {
            rows.iter().map(pick).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
        };
        let message = ["reason", "message"].map(|key| field(key).as_str().unwrap_or_default());
        let message = message.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let run = field("run");
        Some(CallPage {
            call_id: first.call_id.clone().unwrap_or_default(),
            tool: non_empty(|row| &row.tool),
            target: non_empty(|row| &row.target),
            caller: non_empty(|row| &row.caller),
            mode: non_empty(|row| &row.mode),
            outcome: last.outcome,
            word: last.word.clone(),
            message: visible(message).into_owned(),
            rules: rules_of(records),
            time_ms: first.time_ms,
            latency_us: rows.iter().rev().find_map(|row| row.latency_us),
            stages: stages_of(records, run),
            files: visible_json(field("files_touched")),
            undoable: run["undoable"].as_bool().unwrap_or_default(),
            trace_id: text(field("trace"), "trace_id").to_owned(),
            usage: field("usage").clone(),
            records: records.iter().map(visible_json).collect(),
        })
    }
}

fn rules_of(records: &[Value]) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for record in records {
        let listed = record["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        for rule in listed.iter().chain(record.get("rule")).filter_map(rule_text) {
            let rule = visible(&rule).into_owned();
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    rules
}

/// Returns the recorded stages. A call that still waits, or was never decided, has the time between its records.
fn stages_of(records: &[Value], run: &Value) -> Vec<TimelineStage> {
    let refused = records.iter().rev().find_map(|record| record.pointer("/facts/stages"));
    let recorded = run.get("stages").or(refused).and_then(Value::as_array);
    let recorded = recorded.map(Vec::as_slice).unwrap_or_default();
    let stage = |stage: &Value| TimelineStage {
        stage: visible(text(stage, "stage")).into_owned(),
        start_us: stage["start_us"].as_u64().unwrap_or_default(),
        duration_us: stage["duration_us"].as_u64().unwrap_or_default(),
    };
    if !recorded.is_empty() {
        return recorded.iter().map(stage).collect();
    }
    let times: Vec<i64> = records.iter().map(|record| time_ms(text(record, "time"))).collect();
    let start = times.first().copied().unwrap_or_default();
    let us = |ms: i64| u64::try_from(ms).unwrap_or_default() * 1000;
    let pairs = times.iter().zip(times.iter().skip(1)).zip(records);
    let between = pairs.map(|((from, to), record)| TimelineStage {
        stage: format!("after {}", visible(text(record, "kind"))),
        start_us: us(from - start),
        duration_us: us(to - from),
    });
    between.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_joins_the_records_of_a_call() {
        let rule = json!({"file": "/c/tools.yaml", "line": 7, "id": "w"});
        let page = CallPage::new(&[
            json!({"seq": 1, "time": "2026-01-31T12:00:00Z", "kind": "decision", "call_id": "c", "tool": "w",
                "mode": "NORMAL", "rules": [rule, rule], "facts": {"paths": [{"canonical": "/a"}]}}),
            json!({"seq": 2, "time": "2026-01-31T12:00:01Z", "kind": "outcome", "call_id": "c", "tool": "w",
                "outcome": "failed", "failure": "timed_out", "message": "too \u{202e}slow", "latency_us": 9,
                "run": {"stages": [{"stage": "run", "start_us": 1, "duration_us": 8}], "undoable": true}}),
        ])
        .unwrap();
        assert_eq!(
            (page.outcome, page.word.as_str(), page.target.as_str()),
            (RowOutcome::Failed, "timed out", "/a")
        );
        assert_eq!(
            (page.rules, page.message.as_str()),
            (vec!["tools.yaml:7 w".to_owned()], "too \\u{202e}slow")
        );
        let run = TimelineStage { stage: "run".to_owned(), start_us: 1, duration_us: 8 };
        assert_eq!((page.stages, page.undoable, page.latency_us), (vec![run], true, Some(9)));
        assert_eq!(CallPage::new(&[]), None);
    }

    #[test]
    fn call_without_stages_has_the_time_between_its_records() {
        let page = CallPage::new(&[
            json!({"time": "2026-01-31T12:00:00Z", "kind": "approval", "event": "requested"}),
            json!({"time": "2026-01-31T12:00:02Z", "kind": "refusal", "code": "approval_denied", "reason": "no"}),
        ])
        .unwrap();
        let wait = TimelineStage { stage: "after approval".to_owned(), start_us: 0, duration_us: 2_000_000 };
        assert_eq!(
            (page.stages, page.outcome, page.message.as_str()),
            (vec![wait], RowOutcome::Refused, "no")
        );
    }
}
