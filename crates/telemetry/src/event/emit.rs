//! Emission of events: each with its name, level and fields.

use serde_json::{Value, json};
use tool::{FaultParty, RuleRef};
use tracing::Level;

use super::{EVENT_TARGET, TelemetryEvent, is_content_captured};
use crate::redact;

/// Emits a `tracing` event with the fields common to all events of a call.
macro_rules! emit_call_event {
    ($level:expr, $name:literal, $call:expr, $($field:tt)+) => {
        tracing::event!(
            name: $name, target: EVENT_TARGET, $level,
            trace_id = $call.trace.trace_id.as_str(), span_id = $call.trace.span_id.as_str(),
            // `tool` is the name of version 0.1, written until 0.2 is released.
            call_id = %$call.call_id, tool_name = $call.tool, tool = $call.tool, mode = $call.mode.as_str(), session = $call.session,
            $($field)+
        )
    };
}

/// Writes an event to every configured output: the log, standard error, OTLP.
pub fn emit(event: TelemetryEvent<'_>) {
    match event {
        TelemetryEvent::ToolCallStarted { call, arguments_digest, arguments } => {
            let captured = arguments.and_then(captured_arguments);
            let arguments = captured.as_deref();
            emit_call_event!(Level::INFO, "tool_call_started", call, arguments_digest, arguments);
        }
        TelemetryEvent::ToolCallCompleted { call, latency_ms, output_bytes, cached } => {
            emit_call_event!(
                Level::INFO,
                "tool_call_completed",
                call,
                success = true,
                latency_ms,
                output_bytes,
                cached
            );
        }
        TelemetryEvent::ToolCallFailed { call, kind, fault, error, latency_ms } => {
            let (kind, fault, retryable) = (kind.as_str(), fault_name(fault), kind.is_retryable());
            emit_call_event!(
                Level::WARN,
                "tool_call_failed",
                call,
                success = false,
                kind,
                fault,
                retryable,
                error,
                latency_ms
            );
        }
        TelemetryEvent::ToolCallBlocked { call, code, reason, rule, latency_ms } => {
            let (code, location) = (code.as_str(), rule.map(rule_location));
            let rule = location.as_deref();
            emit_call_event!(
                Level::WARN,
                "tool_call_blocked",
                call,
                success = false,
                code,
                reason,
                rule,
                latency_ms
            );
        }
        TelemetryEvent::WorkerInnerCall { call, hop, hop_budget } => {
            emit_call_event!(Level::INFO, "worker_inner_call", call, hop, hop_budget);
        }
        TelemetryEvent::ToolValidationFailed { call, code, missing, reason } => {
            let (code, missing) = (code.as_str(), json!(missing).to_string());
            emit_call_event!(Level::WARN, "tool_validation_failed", call, code, missing, reason);
        }
        TelemetryEvent::GuardrailSkipped { call, by } => {
            emit_call_event!(Level::WARN, "guardrail_skipped", call, by);
        }
        TelemetryEvent::ToolValidationNudge { call, error } => {
            let error = redacted_prefix(error);
            emit_call_event!(Level::INFO, "tool_validation_nudge", call, error);
        }
        TelemetryEvent::WorkerInnerValidationFail { call, code, missing, reason } => {
            let (code, missing) = (code.as_str(), json!(missing).to_string());
            emit_call_event!(Level::WARN, "worker_inner_validation_fail", call, code, missing, reason);
        }
        TelemetryEvent::WorkerToolCostWarning { call, cost, cap } => {
            emit_call_event!(Level::WARN, "worker_tool_cost_warning", call, cost, cap);
        }
        TelemetryEvent::ModeTransition { .. }
        | TelemetryEvent::LedgerPressure { .. }
        | TelemetryEvent::CallerSuspended { .. }
        | TelemetryEvent::ManifestRejected { .. } => emit_daemon_event(event),
        TelemetryEvent::ApprovalRequested { call, approval_id, risk, timeout_ms } => {
            let risk = risk.as_str();
            emit_call_event!(Level::INFO, "approval_requested", call, approval_id, risk, timeout_ms);
        }
        TelemetryEvent::ApprovalDecided { call, approval_id, decision, by, wait_ms } => {
            let decision = decision.as_str();
            emit_call_event!(Level::INFO, "approval_decided", call, approval_id, decision, by, wait_ms);
        }
    }
}

/// Emits an event that belongs to no call.
fn emit_daemon_event(event: TelemetryEvent<'_>) {
    match event {
        TelemetryEvent::ModeTransition { from, to, reason, by, sensors } => {
            let (from, to, sensors) = (from.as_str(), to.as_str(), sensors.map(Value::to_string));
            let sensors = sensors.as_deref();
            tracing::event!(name: "mode_transition", target: EVENT_TARGET, Level::WARN, from, to, reason, by, sensors);
        }
        TelemetryEvent::LedgerPressure { removed_segments, reads_refused, bytes, max_bytes } => {
            tracing::event!(
                name: "ledger_pressure", target: EVENT_TARGET, Level::ERROR,
                removed_segments, reads_refused, bytes, max_bytes
            );
        }
        TelemetryEvent::CallerSuspended { caller, client, reason, seconds } => {
            let client = client.unwrap_or_default();
            tracing::event!(
                name: "caller_suspended", target: EVENT_TARGET, Level::ERROR,
                caller, client, reason, seconds
            );
        }
        TelemetryEvent::ManifestRejected { file, line, code, message } => {
            // `message` is the text of the log line itself, so the description has another name.
            let description = message;
            tracing::event!(
                name: "manifest_rejected", target: EVENT_TARGET, Level::WARN, file, line, code, description
            );
        }
        // The events of calls, which `emit` handles.
        _ => {}
    }
}

fn captured_arguments(arguments: &Value) -> Option<String> {
    is_content_captured().then(|| redact::shared().redact_value(arguments).to_string())
}

/// Returns the first 200 characters. Redacts before cutting, because a detector does not recognize half a
/// secret.
fn redacted_prefix(error: &str) -> String {
    redact::shared().redact_text(error).chars().take(200).collect()
}

fn fault_name(fault: FaultParty) -> &'static str {
    match fault {
        FaultParty::Caller => "caller",
        FaultParty::Tool => "tool",
        FaultParty::Network => "network",
        FaultParty::Machine => "machine",
        FaultParty::Operator => "operator",
    }
}

pub(crate) fn rule_location(rule: &RuleRef) -> String {
    if rule.line == 0 { rule.id.to_string() } else { format!("{}:{} {}", rule.file, rule.line, rule.id) }
}
