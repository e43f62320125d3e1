//! Records every outcome of a call once: in the ledger, as an event, and in the result.
//!
//! The ledger is written first. An outcome that could not be recorded is reported as such in the result.

mod outcomes;
mod refusals;

use std::sync::Arc;

use governance::Permit;
use ledger::entry::{DaemonStart, DaemonStop, StageTime};
use ledger::{Ledger, LedgerEntry, LedgerError, RecordedDecision, RecordedEffect};
pub(crate) use outcomes::CrashReport;
pub(crate) use refusals::ledger_unavailable;
use registry::RecordedPermit;
use serde::Serialize;
use serde_json::{Value, json};
use telemetry::{CallContext, SpanNote, StageTiming, TelemetryEvent, emit, metrics, redact};
use tool::result::ResultMetadata;
use tool::{Category, RefusalCode, ToolDefinition, ToolResult};

use crate::bookkeeping::Bookkeeping;
use crate::call::{CuratedMapCheck, PipelineCall};
use crate::current_policy::CurrentPolicy;
use crate::modes::ModeWatch;
use crate::status::CallTally;

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

/// Result of comparing the configuration files with the accepted configuration at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StartConfiguration {
    /// No configuration was accepted before; the files are applied.
    First,
    /// The files loosen nothing that was accepted, or the settings require no confirmation; the files are
    /// applied.
    Applied,
    /// The files loosen what was accepted. The accepted configuration stays in effect until the operator
    /// confirms the files.
    Waiting,
    /// The accepted configuration is unknown; the files are applied.
    Unknown,
}

impl Recorder {
    /// Records a start of the daemon with the policy and the mode in effect.
    pub(crate) fn record_start(
        &self,
        current: &CurrentPolicy,
        configuration: StartConfiguration,
    ) -> Result<(), LedgerError> {
        let data = json!({
            "configuration": configuration,
            "policy_hash": current.snapshot.load().policy.hash(),
            "mode": current.mode.get(),
            "recovered_in_us": u64::try_from(self.ledger.health().recovery_duration.as_micros()).unwrap_or(u64::MAX),
        });
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let start = DaemonStart { version, pid: std::process::id(), data };
        self.ledger.append(&LedgerEntry::Start(start)).map(|_| ())
    }

    /// Writes the open counts of repetitive records, records a clean stop and closes the ledger. Blocking.
    pub(crate) fn close(&self, reason: &str) {
        self.write_all_groups();
        let stop = LedgerEntry::Stop(DaemonStop { reason: reason.to_owned() });
        if let Err(error) = self.ledger.append(&stop) {
            tracing::error!(%error, "the stop could not be recorded");
        }
        self.ledger.close();
    }
}

/// Ends the call's span and records its metrics. It can neither delay nor fail the call.
pub(crate) fn export(call: PipelineCall, result: &ToolResult) {
    if let Some(word) = policy_decision(result) {
        call.span.add_note(SpanNote::Decision(word));
        metrics::record_decision(call.header.mode, word);
    }
    if let Some(rule) = result.metadata.refusal.as_ref().and_then(|refusal| refusal.rule.as_ref()) {
        call.span.add_note(SpanNote::Rule(rule));
    }
    call.span.add_note(SpanNote::Result(&result.output));
    call.span.end(match (&result.metadata.refusal, &result.metadata.failure) {
        (Some(refusal), _) => telemetry::CallOutcome::Refused(refusal.code),
        (None, Some(failure)) => telemetry::CallOutcome::Failed(failure.kind),
        (None, None) => telemetry::CallOutcome::Done,
    });
}

/// Decision of the policy, if it made one: `permit`, `ask` or `deny`.
fn policy_decision(result: &ToolResult) -> Option<&'static str> {
    let Some(refusal) = &result.metadata.refusal else { return Some("permit") };
    match refusal.code {
        RefusalCode::ApprovalDenied | RefusalCode::ApprovalTimedOut | RefusalCode::ApprovalPending => {
            Some("ask")
        }
        RefusalCode::ModeDenied
        | RefusalCode::RateLimited
        | RefusalCode::PathForbidden
        | RefusalCode::PathNotAllowed
        | RefusalCode::CommandNotAllowed
        | RefusalCode::DomainNotAllowed
        | RefusalCode::TooLarge
        | RefusalCode::SandboxUnavailable
        | RefusalCode::ControlPlane => Some("deny"),
        RefusalCode::UnknownTool
        | RefusalCode::NotInAllowlist
        | RefusalCode::InvalidArguments
        | RefusalCode::ValidatorRejected
        | RefusalCode::Busy
        | RefusalCode::HopBudgetExhausted
        | RefusalCode::CostCapExceeded
        | RefusalCode::LedgerUnavailable
        | RefusalCode::ResourceExhausted
        | RefusalCode::ShuttingDown
        | RefusalCode::Conflict
        | RefusalCode::Cancelled => None,
    }
}
