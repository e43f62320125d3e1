//! Records every outcome of a call once: in the ledger, as an event, and in the result.
//!
//! The ledger is written first. An outcome that could not be recorded is reported as such in the result.

mod ends;
mod export;
mod life;
mod modes;
mod refusals;
mod repeats;
mod sessions;

use governance::Permit;
use ledger::entry::StageTime;
use ledger::{Decision, Effect};
use registry::Order;
use serde_json::Value;
use telemetry::{Event, Note, StageTiming, Subject, emit, redact};
use tool::{Category, Metadata, ToolDefinition};

use crate::call::{Call, CuratedMap};

pub(crate) use ends::{Traces, crashed, ended, overtaken};
pub(crate) use export::export;
pub use life::Configuration;
pub(crate) use life::{start, stop};
pub(crate) use modes::{is_whole, mode_after, restored_mode};
pub(crate) use refusals::{refused, unavailable};
pub(crate) use repeats::repeated;
pub(crate) use sessions::session;

/// Ledger entry of the decision that permits a call.
pub(crate) fn decision(call: &Call, permit: &Permit, approval_id: Option<String>) -> Decision {
    let definition = permit.call().definition();
    Decision {
        call: call.on_record_of(definition),
        risk: definition.risk_level(),
        effect: effect(definition),
        decided_at: None,
        definition_hash: definition.shared_hash(),
        policy_hash: call.world.policy.shared_hash(),
        arguments_digest: call.arguments_digest.clone(),
        idempotency_key: call.key.as_ref().map(|key| key.scoped.clone()),
        request_digest: call.key.as_ref().map(|key| key.request.clone()),
        approval_id,
        rules: permit.rules().to_vec(),
        facts: facts(call, permit),
    }
}

/// Redacted decision facts, with a note if the curated map was skipped.
fn facts(call: &Call, permit: &Permit) -> Value {
    let mut facts = permit.facts();
    if let (Value::Object(facts), Some(note)) = (&mut facts, unasked(call)) {
        facts.insert("curated_map".to_owned(), note.into());
    }
    redact::shared().redact_owned(facts)
}

/// Note for the ledger if the curated map was skipped.
fn unasked(call: &Call) -> Option<&'static str> {
    (call.curated_map == CuratedMap::LeftOut).then_some("left_out")
}

/// Emits the event that the operator skipped the curated map, so that only the tool's schema is checked.
pub(crate) fn announce_unguarded(call: &Call, definition: &ToolDefinition) {
    emit(Event::GuardrailSkipped {
        call: subject(call, definition.name().as_str()),
        by: &call.caller.display_name(),
    });
}

/// Effect of a tool. Only tools of the read-only categories count as reading.
fn effect(definition: &ToolDefinition) -> Effect {
    let looks = [Category::READ_ONLY, Category::SELF_CHECK].contains(definition.category());
    if looks { Effect::Reads } else { Effect::Changes }
}

/// Emits the event that a permitted and recorded call starts.
pub(crate) fn announce_start(call: &Call, order: &Order) {
    let captured = telemetry::captures_content();
    let arguments = captured.then(|| Value::Object(order.value().call().arguments().clone()));
    if let Some(arguments) = &arguments {
        call.span.note(Note::Arguments(arguments));
    }
    emit(Event::ToolCallStarted {
        call: subject(call, &call.tool_name),
        arguments_digest: &call.arguments_digest,
        arguments: arguments.as_ref(),
    });
}

/// Redacts a text that may contain secrets, for the ledger.
fn redacted(text: &str) -> String {
    redact::shared().redact_text(text).into_owned()
}

/// Durations of the stages, for `sinew trace`.
fn stages(call: &Call) -> Vec<StageTime> {
    let time = |timing: &StageTiming| StageTime {
        stage: timing.stage.as_str().into(),
        start_us: timing.start_us,
        duration_us: timing.duration_us,
    };
    call.span.with_timings(|timings| timings.iter().map(time).collect())
}

fn metadata(call: &Call) -> Metadata {
    let edited_arguments = call.edited.clone();
    Metadata {
        edited_arguments,
        ..Metadata::new(call.id, &call.trace, call.mode, call.world.policy.shared_hash())
    }
}

/// Describes the call for events.
pub(crate) fn subject<'a>(call: &'a Call, tool: &'a str) -> Subject<'a> {
    let session = call.caller.session.as_deref();
    Subject { tool, call_id: call.id, trace: &call.trace, mode: call.mode, session }
}
