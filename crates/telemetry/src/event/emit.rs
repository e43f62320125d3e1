//! Emission of events: each with its name, level and fields.

use serde_json::{Value, json};
use tool::{Fault, RuleRef};
use tracing::Level;

use super::{Event, TARGET, captures_content};
use crate::redact;

/// Emits a `tracing` event with the fields common to all events of a call.
macro_rules! about_call {
    ($level:expr, $name:literal, $call:expr, $($field:tt)+) => {
        tracing::event!(
            name: $name, target: TARGET, $level,
            trace_id = $call.trace.trace_id.as_str(), span_id = $call.trace.span_id.as_str(),
            call_id = %$call.call_id, tool = $call.tool, mode = $call.mode.as_str(), session = $call.session,
            $($field)+
        )
    };
}

/// Writes an event to every configured output: the log, standard error, OTLP.
pub fn emit(event: Event<'_>) {
    match event {
        Event::ToolCallStarted { call, arguments_digest, arguments } => {
            let captured = arguments.and_then(captured);
            let arguments = captured.as_deref();
            about_call!(Level::INFO, "tool_call_started", call, arguments_digest, arguments);
        }
        Event::ToolCallCompleted { call, latency_ms, output_bytes } => {
            about_call!(Level::INFO, "tool_call_completed", call, latency_ms, output_bytes);
        }
        Event::ToolCallFailed { call, kind, error, latency_ms } => {
            let (kind, fault, retryable) = (kind.as_str(), fault_word(kind.fault()), kind.retryable());
            about_call!(Level::WARN, "tool_call_failed", call, kind, fault, retryable, error, latency_ms);
        }
        Event::ToolCallBlocked { call, code, reason, rule, latency_ms } => {
            let (code, place) = (code.as_str(), rule.map(rule_place));
            let rule = place.as_deref();
            about_call!(Level::WARN, "tool_call_blocked", call, code, reason, rule, latency_ms);
        }
        Event::WorkerInnerCall { call, hop, hop_budget } => {
            about_call!(Level::INFO, "worker_inner_call", call, hop, hop_budget);
        }
        Event::ToolValidationFailed { call, code, missing, reason } => {
            let (code, missing) = (code.as_str(), json!(missing).to_string());
            about_call!(Level::WARN, "tool_validation_failed", call, code, missing, reason);
        }
        Event::GuardrailSkipped { call, by } => {
            about_call!(Level::WARN, "guardrail_skipped", call, by);
        }
        Event::ToolValidationNudge { call, error } => {
            let error = opening(error);
            about_call!(Level::INFO, "tool_validation_nudge", call, error);
        }
        Event::WorkerInnerValidationFail { call, code, missing, reason } => {
            let (code, missing) = (code.as_str(), json!(missing).to_string());
            about_call!(Level::WARN, "worker_inner_validation_fail", call, code, missing, reason);
        }
        Event::WorkerToolCostWarning { call, cost, cap } => {
            about_call!(Level::WARN, "worker_tool_cost_warning", call, cost, cap);
        }
        Event::ModeTransition { from, to, reason, by, sensors } => {
            let (from, to, sensors) = (from.as_str(), to.as_str(), sensors.map(Value::to_string));
            let sensors = sensors.as_deref();
            tracing::event!(name: "mode_transition", target: TARGET, Level::WARN, from, to, reason, by, sensors);
        }
        Event::LedgerPressure { removed_segments, reads_refused, bytes, max_bytes } => {
            tracing::event!(
                name: "ledger_pressure", target: TARGET, Level::ERROR,
                removed_segments, reads_refused, bytes, max_bytes
            );
        }
        Event::ApprovalRequested { call, approval_id, risk, timeout_ms } => {
            let risk = risk.as_str();
            about_call!(Level::INFO, "approval_requested", call, approval_id, risk, timeout_ms);
        }
        Event::ApprovalDecided { call, approval_id, decision, by, wait_ms } => {
            let decision = decision.as_str();
            about_call!(Level::INFO, "approval_decided", call, approval_id, decision, by, wait_ms);
        }
    }
}

fn captured(arguments: &Value) -> Option<String> {
    captures_content().then(|| redact::shared().redact_value(arguments).to_string())
}

/// Returns the first 200 characters. Redacts before cutting, because a detector does not recognize half a
/// secret.
fn opening(error: &str) -> String {
    redact::shared().redact_text(error).chars().take(200).collect()
}

fn fault_word(fault: Fault) -> &'static str {
    match fault {
        Fault::Caller => "caller",
        Fault::Tool => "tool",
        Fault::Machine => "machine",
        Fault::Operator => "operator",
    }
}

pub(crate) fn rule_place(rule: &RuleRef) -> String {
    if rule.line == 0 { rule.id.to_string() } else { format!("{}:{} {}", rule.file, rule.line, rule.id) }
}
