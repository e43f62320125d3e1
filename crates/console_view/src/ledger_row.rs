//! One line of the ledger table: the fields of a record that a list shows.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::visible_text::visible;

/// Meaning of a row, shown as a word, a symbol and a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowOutcome {
    /// The call ended as intended.
    Done,
    /// The tool failed, or the outcome is unknown.
    Failed,
    /// A rule refused the call.
    Refused,
    /// The operator was asked, or decided.
    Approval,
    /// The call was permitted; its outcome is a later record.
    Permitted,
    /// The record is not about a call.
    Event,
}

/// Row of the ledger table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// Sequence number of the record.
    pub seq: u64,
    /// Time of the record, in milliseconds since 1970.
    pub time_ms: i64,
    /// Kind of the record.
    pub kind: String,
    /// Call, if the record is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Tool, or empty.
    pub tool: String,
    /// Command, host or first path of the call, or the subject of another event.
    pub target: String,
    /// Meaning of the record.
    pub outcome: RowOutcome,
    /// Outcome in words: a code, an event or a state.
    pub word: String,
    /// Mode of the call, or the new mode.
    pub mode: String,
    /// Name of the caller.
    pub caller: String,
    /// Worker session, or empty.
    pub session: String,
    /// Rule that refused the call or required the approval, as `file:line id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Time from the request to the end of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
    /// Part of the latency that was the wait for the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_us: Option<u64>,
    /// Approval that the record is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
}

impl LedgerRow {
    /// Reads a record. Fields that it does not have are empty.
    pub fn from_record(record: &Value) -> LedgerRow {
        let kind = text(record, "kind");
        let (outcome, word) = outcome_of(record, kind);
        let approval = if kind == "approval" { record.get("id") } else { record.get("approval_id") };
        LedgerRow {
            seq: record["seq"].as_u64().unwrap_or_default(),
            time_ms: time_ms(text(record, "time")),
            kind: kind.to_owned(),
            call_id: record.get("call_id").and_then(Value::as_str).map(str::to_owned),
            tool: visible(text(record, "tool")).into_owned(),
            target: visible(&target_of(record, kind)).into_owned(),
            outcome,
            word: visible(&word).into_owned(),
            mode: text(record, if kind == "mode" { "to" } else { "mode" }).to_owned(),
            caller: visible(&caller_of(record)).into_owned(),
            session: visible(text(&record["caller"], "session")).into_owned(),
            rule: rule_of(record, kind).map(|rule| visible(&rule).into_owned()),
            latency_us: record["latency_us"].as_u64(),
            approval_us: approval_time(record),
            approval_id: approval.and_then(Value::as_str).map(str::to_owned),
        }
    }

    /// Returns the time that the call took without the wait for the operator.
    pub fn machine_us(&self) -> Option<u64> {
        self.latency_us.map(|all| all.saturating_sub(self.approval_us.unwrap_or_default()))
    }

    /// Returns true if this record ends a call.
    pub fn ends_call(&self) -> bool {
        matches!(self.kind.as_str(), "outcome" | "call") || self.outcome == RowOutcome::Refused
    }
}

/// Returns a field as text, or an empty one.
pub(crate) fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an RFC 3339 time in milliseconds since 1970, or 0.
pub(crate) fn time_ms(text: &str) -> i64 {
    text.parse::<Timestamp>().map(Timestamp::as_millisecond).unwrap_or_default()
}

/// Returns a rule as `file:line id`, with the last part of the path only.
pub(crate) fn rule_text(rule: &Value) -> Option<String> {
    let file = text(rule, "file");
    let name = file.rsplit('/').next().unwrap_or(file);
    let id = text(rule, "id");
    match (name.is_empty(), rule["line"].as_u64()) {
        // A rule of the workspaces or of Sinew itself has no line.
        (true, _) | (_, Some(0)) => (!id.is_empty()).then(|| id.to_owned()),
        (false, Some(line)) => Some(format!("{name}:{line} {id}").trim_end().to_owned()),
        (false, None) => Some(format!("{name} {id}").trim_end().to_owned()),
    }
}

fn outcome_of(record: &Value, kind: &str) -> (RowOutcome, String) {
    let word = |key: &str| text(record, key).replace('_', " ");
    match kind {
        "outcome" | "call" => match text(record, "outcome") {
            "done" => (RowOutcome::Done, "done".to_owned()),
            _ if record.get("failure").is_some() => (RowOutcome::Failed, word("failure")),
            _ => (RowOutcome::Failed, word("outcome")),
        },
        "refusal" => match text(record, "code") {
            "approval_pending" => (RowOutcome::Approval, "approval pending".to_owned()),
            _ => (RowOutcome::Refused, word("code")),
        },
        "approval" => (RowOutcome::Approval, word("event")),
        "decision" => (RowOutcome::Permitted, "permitted".to_owned()),
        "mode" => (RowOutcome::Event, format!("{} → {}", text(record, "from"), text(record, "to"))),
        "note" => (RowOutcome::Event, word("about")),
        _ => (RowOutcome::Event, ["event", "result"].map(word).concat()),
    }
}

fn target_of(record: &Value, kind: &str) -> String {
    let first = |key: &str| record.pointer(&format!("/facts/{key}/0"));
    if let Some(words) = first("commands").and_then(Value::as_array) {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return words.join(" ");
    }
    if let Some(host) = first("hosts").and_then(Value::as_str) {
        return host.to_owned();
    }
    if let Some(path) = first("paths") {
        let named = ["canonical", "typed"].map(|key| text(path, key));
        return named.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned();
    }
    match kind {
        "mode" | "stop" => text(record, "reason").to_owned(),
        "note" => text(record, "text").to_owned(),
        "start" => format!("version {}", text(record, "version")),
        "outcome" => {
            record.pointer("/files_touched/0").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        "refusal" => text(record, "reason").to_owned(),
        _ => String::new(),
    }
}

fn caller_of(record: &Value) -> String {
    let caller = record.get("caller").or_else(|| record.pointer("/data/call/caller")).unwrap_or(&Value::Null);
    match (caller["client"].as_str(), caller["uid"].as_u64(), text(record, "by")) {
        (Some(client), _, _) => client.to_owned(),
        (None, Some(uid), _) => format!("uid {uid}"),
        (None, None, by) => match text(record, "via") {
            "" => by.to_owned(),
            via => format!("{by} via {via}"),
        },
    }
}

fn rule_of(record: &Value, kind: &str) -> Option<String> {
    match kind {
        "refusal" => record.get("rule").or_else(|| record.pointer("/rules/0")).and_then(rule_text),
        "approval" => record.pointer("/data/rules/0").and_then(|rule| {
            // Recorded as the path of the file and the id of the rule.
            rule.as_str().map(|text| text.rsplit('/').next().unwrap_or(text).to_owned())
        }),
        _ => None,
    }
}

fn approval_time(record: &Value) -> Option<u64> {
    let stages = record.pointer("/run/stages")?.as_array()?;
    let waits = stages.iter().filter(|stage| stage["stage"] == "approve");
    let sum: u64 = waits.filter_map(|stage| stage["duration_us"].as_u64()).sum();
    (sum > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(record: &Value, outcome: RowOutcome, word: &str, target: &str) -> LedgerRow {
        let row = LedgerRow::from_record(record);
        assert_eq!(
            (row.outcome, row.word.as_str(), row.target.as_str()),
            (outcome, word, target),
            "{record}"
        );
        row
    }

    #[test]
    fn each_kind_of_record_has_a_meaning() {
        let done = json!({"seq": 7, "time": "2026-01-31T12:00:00.250Z", "kind": "outcome", "outcome": "done",
            "latency_us": 900, "run": {"stages": [{"stage": "approve", "duration_us": 800}]}});
        let row = check(&done, RowOutcome::Done, "done", "");
        assert_eq!((row.seq, row.time_ms, row.machine_us()), (7, 1_769_860_800_250, Some(100)));
        check(
            &json!({"kind": "outcome", "outcome": "failed", "failure": "timed_out"}),
            RowOutcome::Failed,
            "timed out",
            "",
        );
        let refused = json!({"kind": "refusal", "code": "path_forbidden", "facts": {"paths": [{"typed": "/x"}]},
            "rule": {"file": "/home/a/config/governance/tools.yaml", "line": 46, "id": "forbidden_paths"}});
        let row = check(&refused, RowOutcome::Refused, "path forbidden", "/x");
        assert_eq!(row.rule.as_deref(), Some("tools.yaml:46 forbidden_paths"));
        check(
            &json!({"kind": "refusal", "code": "approval_pending"}),
            RowOutcome::Approval,
            "approval pending",
            "",
        );
        let granted =
            json!({"kind": "approval", "event": "granted", "by": "uid 1", "via": "console", "id": "a"});
        let row = check(&granted, RowOutcome::Approval, "granted", "");
        assert_eq!((row.caller.as_str(), row.approval_id.as_deref()), ("uid 1 via console", Some("a")));
        check(
            &json!({"kind": "decision", "facts": {"commands": [["git", "status"]]}}),
            RowOutcome::Permitted,
            "permitted",
            "git status",
        );
        check(
            &json!({"kind": "mode", "from": "NORMAL", "to": "ALERT", "reason": "odd"}),
            RowOutcome::Event,
            "NORMAL → ALERT",
            "odd",
        );
        check(&json!({"kind": "future"}), RowOutcome::Event, "", "");
    }

    #[test]
    fn names_from_agents_show_invisible_characters() {
        let record = json!({"kind": "refusal", "code": "unknown_tool", "tool": "a\u{202e}b",
            "caller": {"uid": 1, "client": "x\u{200b}"}});
        let row = LedgerRow::from_record(&record);
        assert_eq!((row.tool.as_str(), row.caller.as_str()), ("a\\u{202e}b", "x\\u{200b}"));
    }
}
