//! A call that was not run: its refusal on record, its event, its result.

use std::sync::atomic::Ordering;

use ledger::entry::Refused;
use ledger::{Entry, LedgerError};
use serde_json::{Value, json};
use telemetry::{Event, emit};
use tool::{Metadata, Refusal, RefusalCode, ToolResult};

use super::{metadata, redacted, stages, subject};
use crate::call::Call;
use crate::layer::ToolExecutionLayer;

/// The result of a call that was not run.
pub(crate) fn refused(layer: &ToolExecutionLayer, call: &Call, mut refusal: Refusal) -> ToolResult {
    refusal.trace_id = Some(call.trace.trace_id.to_string());
    let entry = Entry::Refusal(Refused {
        call: call.on_record(&refusal.tool),
        code: refusal.code,
        detail: refusal.detail.clone(),
        reason: redacted(&refusal.reason),
        rule: refusal.rule.clone(),
        policy_hash: Some(call.world.policy.hash().to_owned()),
        arguments_digest: Some(call.arguments_digest.to_string()),
        latency_us: u64::try_from(call.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        facts: facts(call),
    });
    let written = layer.ledger.append(&entry);
    let recorded = written.is_ok();
    if let Err(error) = written {
        refusal = *unavailable(&call.tool_name, &error);
        refusal.trace_id = Some(call.trace.trace_id.to_string());
    }
    layer.tally.refused.fetch_add(1, Ordering::Relaxed);
    layer.count_refused(call, &refusal);
    announce_refusal(call, &refusal);
    ToolResult::refused(refusal, Metadata { recorded, ..metadata(call) }, call.latency_ms())
}

fn facts(call: &Call) -> Value {
    let mut facts = json!({"stages": stages(call)});
    if let Value::Object(facts) = &mut facts {
        facts.extend(super::unasked(call).map(|word| ("curated_map".to_owned(), json!(word))));
        facts.extend(call.host.iter().map(|host| ("host".to_owned(), host.clone())));
        let saw = call.facts().and_then(Value::as_object).into_iter().flatten();
        facts.extend(saw.map(|(key, value)| (key.clone(), value.clone())));
    }
    facts
}

fn announce_refusal(call: &Call, refusal: &Refusal) {
    let (code, reason, latency_ms) = (refusal.code, refusal.reason.as_str(), call.latency_ms());
    let subject = subject(call, &refusal.tool);
    if code == RefusalCode::InvalidArguments {
        let missing = guardrail::missing_fields(&refusal.problems);
        emit(Event::ToolValidationFailed { call: subject, code, missing: &missing, reason });
        if call.caller.session.is_some() {
            emit(Event::WorkerInnerValidationFail { call: subject, code, missing: &missing, reason });
        }
    } else {
        emit(Event::ToolCallBlocked { call: subject, code, reason, rule: refusal.rule.as_ref(), latency_ms });
    }
}

/// The refusal of a call whose decision could not be recorded.
pub(crate) fn unavailable(tool: &str, error: &LedgerError) -> Box<Refusal> {
    let reason = format!("Permission denied: The decision could not be recorded: {error}");
    let refusal = Refusal::new(tool, RefusalCode::LedgerUnavailable, reason);
    Box::new(refusal.hint("nothing was run; free disk space or mend the state folder, then try again"))
}
