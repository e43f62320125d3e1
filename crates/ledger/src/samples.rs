//! Sample entries for tests.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tool::{CallId, Caller, CallerEndpoint, Mode, RefusalCode, RiskLevel, TraceContext};

use crate::entry::{
    ApprovalEvent, ApprovalEventEntry, CallHeader, LedgerEntry, LedgerOutcome, ModeChange, NoteEntry,
    OutcomeStatus, RecordedDecision, RecordedEffect, RecordedOutcome, RecordedRead, RecordedRefusal,
};

pub(crate) fn call(tool: &str) -> Arc<CallHeader> {
    let caller = Caller {
        uid: 501,
        pid: Some(77),
        endpoint: CallerEndpoint::Mcp,
        connection: 3,
        client: Some("claude".into()),
        session: Some("s-1".into()),
        account: None,
    };
    Arc::new(CallHeader {
        call_id: CallId::fresh(),
        tool: tool.into(),
        mode: Mode::Normal,
        caller: Arc::new(caller),
        trace: TraceContext::root(),
    })
}

pub(crate) fn decision(tool: &str, effect: RecordedEffect) -> RecordedDecision {
    RecordedDecision { effect, ..decision_for(&call(tool)) }
}

pub(crate) fn decision_for(call: &Arc<CallHeader>) -> RecordedDecision {
    RecordedDecision {
        call: Arc::clone(call),
        risk: RiskLevel::Low,
        effect: RecordedEffect::Reads,
        decided_at: None,
        definition_hash: "d".repeat(64).into(),
        policy_hash: "p".repeat(64).into(),
        arguments_digest: "a".repeat(64).into(),
        idempotency_key: None,
        request_digest: None,
        approval_id: None,
        rules: Vec::new(),
        facts: json!({"paths": [{"key": "path", "canonical": "/home/anna/notes.txt", "size": 120}]}),
        facts_json: String::new(),
    }
}

pub(crate) fn decision_entry(call: &Arc<CallHeader>) -> LedgerEntry {
    LedgerEntry::Decision(decision_for(call))
}

pub(crate) fn outcome(status: OutcomeStatus) -> LedgerOutcome {
    LedgerOutcome::new(status, Duration::from_micros(1234))
}

pub(crate) fn outcome_entry(call: &Arc<CallHeader>, status: OutcomeStatus) -> LedgerEntry {
    LedgerEntry::Outcome(RecordedOutcome { call: Arc::clone(call), outcome: outcome(status) })
}

pub(crate) fn call_entry(call: &Arc<CallHeader>, status: OutcomeStatus) -> LedgerEntry {
    LedgerEntry::Call(RecordedRead { decision: Box::new(decision_for(call)), outcome: outcome(status) })
}

pub(crate) fn refusal_entry(call: &Arc<CallHeader>) -> LedgerEntry {
    LedgerEntry::Refusal(RecordedRefusal {
        call: Arc::clone(call),
        code: RefusalCode::PathForbidden,
        detail: None,
        reason: "Permission denied: Path `/etc/shadow` is forbidden".into(),
        rule: None,
        policy_hash: None,
        arguments_digest: None,
        latency_us: 12,
        facts: Value::Null,
    })
}

pub(crate) fn approval(id: &str, event: ApprovalEvent) -> ApprovalEventEntry {
    ApprovalEventEntry {
        id: id.to_owned(),
        event,
        call_id: None,
        tool: None,
        digest: "e".repeat(64),
        by: None,
        data: Value::Null,
    }
}

pub(crate) fn mode(from: Mode, to: Mode) -> LedgerEntry {
    LedgerEntry::Mode(ModeChange { from, to, reason: "test".into(), by: None, data: Value::Null })
}

pub(crate) fn note(text: &str) -> LedgerEntry {
    LedgerEntry::Note(NoteEntry { about: "test".into(), text: text.into(), data: Value::Null })
}
