//! Sample entries for tests.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tool::{CallId, Caller, Door, Mode, RefusalCode, RiskLevel, TraceContext};

use crate::entry::{
    Approval, ApprovalEvent, Call, Concluded, Decision, Effect, Entry, ModeChange, Note, Outcome, Refused,
    Status,
};

pub(crate) fn call(tool: &str) -> Arc<Call> {
    let caller = Caller {
        uid: 501,
        pid: Some(77),
        door: Door::Mcp,
        connection: 3,
        client: Some("claude".into()),
        session: Some("s-1".into()),
    };
    Arc::new(Call {
        call_id: CallId::fresh(),
        tool: tool.into(),
        mode: Mode::Normal,
        caller,
        trace: TraceContext::root(),
    })
}

pub(crate) fn decision(tool: &str, effect: Effect) -> Decision {
    Decision { effect, ..decided(&call(tool)) }
}

pub(crate) fn decided(call: &Arc<Call>) -> Decision {
    Decision {
        call: Arc::clone(call),
        risk: RiskLevel::Low,
        effect: Effect::Reads,
        decided_at: None,
        definition_hash: "d".repeat(64).into(),
        policy_hash: "p".repeat(64).into(),
        arguments_digest: "a".repeat(64).into(),
        idempotency_key: None,
        request_digest: None,
        approval_id: None,
        rules: Vec::new(),
        facts: json!({"paths": [{"key": "path", "canonical": "/home/anna/notes.txt", "size": 120}]}),
    }
}

pub(crate) fn decision_of(call: &Arc<Call>) -> Entry {
    Entry::Decision(decided(call))
}

pub(crate) fn outcome(status: Status) -> Outcome {
    Outcome::new(status, Duration::from_micros(1234))
}

pub(crate) fn outcome_of(call: &Arc<Call>, status: Status) -> Entry {
    Entry::Outcome(Concluded { call: Arc::clone(call), outcome: outcome(status) })
}

pub(crate) fn refusal_of(call: &Arc<Call>) -> Entry {
    Entry::Refusal(Refused {
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

pub(crate) fn approval(id: &str, event: ApprovalEvent) -> Approval {
    Approval {
        id: id.to_owned(),
        event,
        call_id: None,
        tool: None,
        digest: "e".repeat(64),
        by: None,
        data: Value::Null,
    }
}

pub(crate) fn mode(from: Mode, to: Mode) -> Entry {
    Entry::Mode(ModeChange { from, to, reason: "test".into(), by: None, data: Value::Null })
}

pub(crate) fn note(text: &str) -> Entry {
    Entry::Note(Note { about: "test".into(), text: text.into(), data: Value::Null })
}
