//! Records every outcome of a call once: in the ledger, as an event, and in the result.
//!
//! The ledger is written first. An outcome that could not be recorded is reported as such in the result.

mod export;
mod lifecycle;
mod outcomes;
mod refusals;
mod repeats;

use std::sync::Arc;

use governance::Permit;
use ledger::entry::StageTime;
use ledger::{Ledger, RecordedDecision, RecordedEffect};
use registry::RecordedPermit;
use serde_json::Value;
use telemetry::{CallContext, SpanNote, StageTiming, TelemetryEvent, emit, redact};
use tool::result::ResultMetadata;
use tool::{Category, ToolDefinition};

use crate::bookkeeping::Bookkeeping;
use crate::call::{CuratedMapCheck, PipelineCall};
use crate::modes::ModeWatch;
use crate::status::CallTally;

pub(crate) use export::export;
pub use lifecycle::StartConfiguration;
pub(crate) use outcomes::CrashReport;
pub(crate) use refusals::ledger_unavailable;

/// Records outcomes and keeps the counts that follow from them.
pub(crate) struct Recorder {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) bookkeeping: Bookkeeping,
    pub(crate) tally: CallTally,
    /// Counts outcomes for the mode rules.
    mode_watch: Arc<ModeWatch>,
}

impl Recorder {
    pub(crate) fn new(ledger: Arc<Ledger>, mode_watch: Arc<ModeWatch>) -> Self {
        let bookkeeping = Bookkeeping::new(ledger.max_bytes());
        Recorder { ledger, bookkeeping, tally: CallTally::default(), mode_watch }
    }
}

/// Ledger entry of the decision that permits a call.
pub(crate) fn decision(
    call: &PipelineCall,
    permit: &Permit,
    approval_id: Option<String>,
) -> RecordedDecision {
    let definition = permit.call().definition();
    RecordedDecision {
        call: call.ledger_call_for(definition),
        risk: call.snapshot.policy.risk_level(definition),
        effect: effect(definition),
        decided_at: None,
        definition_hash: definition.shared_hash(),
        policy_hash: call.snapshot.policy.shared_hash(),
        arguments_digest: call.arguments_digest.clone(),
        idempotency_key: call.idempotency_key.as_ref().map(|key| key.scoped_digest.clone()),
        request_digest: call.idempotency_key.as_ref().map(|key| key.request_digest.clone()),
        approval_id,
        rules: permit.rules().to_vec(),
        facts: Value::Null,
        facts_json: facts_json(call, permit),
    }
}

/// Redacted decision facts, with a note if the curated map was skipped.
fn facts_json(call: &PipelineCall, permit: &Permit) -> String {
    let mut facts = permit.facts_json();
    if let Some(note) = curated_map_note(call) {
        facts.pop();
        facts.push_str(&format!(r#","curated_map":"{note}"}}"#));
    }
    redact::shared().redact_json(facts)
}

/// Note for the ledger if the curated map was skipped.
fn curated_map_note(call: &PipelineCall) -> Option<&'static str> {
    (call.curated_map == CuratedMapCheck::Skipped).then_some("skipped")
}

/// Emits the event that the operator skipped the curated map, so that only the tool's schema is checked.
pub(crate) fn announce_guardrail_skipped(call: &PipelineCall, definition: &ToolDefinition) {
    emit(TelemetryEvent::GuardrailSkipped {
        call: subject(call, definition.name().as_str()),
        by: &call.header.caller.display_name(),
    });
}

/// Effect of a tool. Only tools of the read-only categories count as reading.
fn effect(definition: &ToolDefinition) -> RecordedEffect {
    let looks = [Category::READ_ONLY, Category::SELF_CHECK].contains(definition.category());
    if looks { RecordedEffect::Reads } else { RecordedEffect::Changes }
}

/// Emits the event that a permitted and recorded call starts.
pub(crate) fn announce_start(call: &PipelineCall, recorded_permit: &RecordedPermit) {
    let captured = telemetry::is_content_captured();
    let arguments = captured.then(|| Value::Object(recorded_permit.value().call().arguments().clone()));
    if let Some(arguments) = &arguments {
        call.span.add_note(SpanNote::Arguments(arguments));
    }
    emit(TelemetryEvent::ToolCallStarted {
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
fn stages(call: &PipelineCall) -> Vec<StageTime> {
    let time = |timing: &StageTiming| StageTime {
        stage: timing.stage.as_str().into(),
        start_us: timing.start_us,
        duration_us: timing.duration_us,
    };
    call.span.with_timings(|timings| timings.iter().map(time).collect())
}

fn metadata(call: &PipelineCall) -> ResultMetadata {
    let edited_arguments = call.edited_arguments.clone();
    ResultMetadata {
        edited_arguments,
        ..ResultMetadata::new(
            call.header.call_id,
            &call.header.trace,
            call.header.mode,
            call.snapshot.policy.shared_hash(),
        )
    }
}

/// Describes the call for events.
pub(crate) fn subject<'a>(call: &'a PipelineCall, tool: &'a str) -> CallContext<'a> {
    let session = call.header.caller.session.as_deref();
    CallContext {
        tool,
        call_id: call.header.call_id,
        trace: &call.header.trace,
        mode: call.header.mode,
        session,
    }
}
