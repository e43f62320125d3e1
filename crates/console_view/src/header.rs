//! Header of every screen: mode, pending requests, ledger, PIN, and what waits for the operator.

use serde::Serialize;
use serde_json::Value;

use crate::actions::{ModeAction, mode_actions};
use crate::ledger_row::text;
use crate::visible_text::{visible, visible_json};

/// State of the daemon as every screen shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsoleHeader {
    /// Version of the daemon.
    pub version: String,
    /// Current mode.
    pub mode: String,
    /// Reason for the mode, and who or what changed it.
    pub mode_reason: String,
    /// Time of the change.
    pub mode_since: String,
    /// Modes that can be set.
    pub modes: Vec<ModeAction>,
    /// Mode change that waits for the operator.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub proposal: Value,
    /// Requests that wait for a decision.
    pub pending: u64,
    /// Calls that have not ended.
    pub running: u64,
    /// True if a PIN is set.
    pub pin: bool,
    /// True if the ledger takes and has all records.
    pub ledger_ok: bool,
    /// State of the ledger in words.
    pub ledger: String,
    /// Number of records.
    pub records: u64,
    /// Last reload of the configuration, if it waits or was rejected.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub reload: Value,
    /// Calls that are left under the limits of the mode.
    pub remaining: Value,
    /// Connected clients.
    pub clients: Value,
    /// Suspended callers.
    pub suspended: Value,
    /// Folders that callers may work in.
    pub workspaces: Value,
    /// Number of tools.
    pub tools: u64,
    /// Hash of the policy in effect.
    pub policy_hash: String,
    /// Seconds since the start of the daemon.
    pub uptime_seconds: u64,
}

impl ConsoleHeader {
    /// Reads the reply to `control/status`.
    pub fn from_status(status: &Value) -> ConsoleHeader {
        let cause = &status["mode_cause"];
        let reason = [text(cause, "reason"), text(cause, "by")].into_iter().filter(|part| !part.is_empty());
        let (ledger_ok, ledger) = ledger_state(&status["ledger"]);
        let mode = text(status, "mode");
        let reload = Some(&status["reload"]);
        let waits = |reload: &&Value| ["waiting", "rejected"].contains(&text(reload, "result"));
        let nested = |pointer: &str| status.pointer(pointer).unwrap_or(&Value::Null);
        ConsoleHeader {
            version: text(status, "version").to_owned(),
            mode: mode.to_owned(),
            mode_reason: visible(&reason.collect::<Vec<_>>().join(", by ")).into_owned(),
            mode_since: text(cause, "since").to_owned(),
            modes: mode.parse().map(mode_actions).unwrap_or_default(),
            proposal: visible_json(&status["proposal"]),
            pending: count(nested("/approvals/pending")),
            running: count(nested("/calls/running")),
            pin: nested("/approvals/pin").as_bool().unwrap_or(false),
            ledger_ok,
            ledger,
            records: count(nested("/ledger/records")),
            reload: reload.filter(waits).map(visible_json).unwrap_or_default(),
            remaining: status["remaining"].clone(),
            clients: visible_json(&status["clients"]),
            suspended: visible_json(&status["suspended_callers"]),
            workspaces: visible_json(&status["workspaces"]),
            tools: count(&status["tools"]),
            policy_hash: text(status, "policy_hash").to_owned(),
            uptime_seconds: count(&status["uptime_seconds"]),
        }
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Returns true for a ledger without a problem, and its state in words. An unknown state is a problem.
fn ledger_state(ledger: &Value) -> (bool, String) {
    let lost = count(&ledger["lost_records"]);
    let deferred = count(&ledger["deferred"]);
    match (text(ledger, "state"), lost, deferred) {
        ("ready", 0, 0) => (true, "intact".to_owned()),
        (_, 1.., _) => (false, format!("{lost} records are missing")),
        (_, _, 1..) => (false, format!("{deferred} records wait to be written")),
        ("", _, _) => (false, "unknown".to_owned()),
        (state, _, _) => (false, visible(state).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_ready_ledger_without_gaps_is_intact() {
        for (ledger, expect) in [
            (json!({"state": "ready", "lost_records": 0, "deferred": 0}), (true, "intact")),
            (json!({"state": "ready", "lost_records": 2}), (false, "2 records are missing")),
            (json!({"state": "ready", "deferred": 3}), (false, "3 records wait to be written")),
            (json!({"state": "read_only"}), (false, "read_only")),
            (Value::Null, (false, "unknown")),
        ] {
            assert_eq!(ledger_state(&ledger), (expect.0, expect.1.to_owned()), "{ledger}");
        }
    }

    #[test]
    fn status_becomes_a_header() {
        let header =
            ConsoleHeader::from_status(&json!({"mode": "LOCKDOWN", "approvals": {"pending": 2, "pin": true},
            "mode_cause": {"reason": "odd", "by": "uid 1"}, "reload": {"result": "unchanged"}}));
        assert_eq!((header.pending, header.pin, header.mode_reason.as_str()), (2, true, "odd, by uid 1"));
        assert_eq!((header.modes.len(), header.reload), (1, Value::Null), "an unchanged reload is no news");
        let waiting = ConsoleHeader::from_status(&json!({"reload": {"result": "waiting", "candidate": "c"}}));
        assert_eq!(waiting.reload["candidate"], "c");
    }
}
