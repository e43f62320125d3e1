//! Exports the span and the metrics of a finished call.

use telemetry::{SpanNote, metrics};
use tool::{RefusalCode, ToolResult};

use crate::call::PipelineCall;

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
