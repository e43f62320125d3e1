//! Admission stage of the pipeline for calls of a worker: hop budget, cost cap and allowlist. Also adds the
//! session report to every result of such a call.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};
use telemetry::{TelemetryEvent, emit};
use tool::{
    CostCapReport, Failure, FailureKind, MAX_QUOTED_CHARS, Refusal, RefusalCode, SessionReport, ToolName,
    ToolResult, UntrustedMarkers, shorten,
};

use super::WorkerSession;
use super::budget::BudgetExhausted;
use crate::call::PipelineCall;
use crate::calls::StoppedBy;
use crate::layer::ToolExecutionLayer;
use crate::recorder;

/// Admits a call of a worker and counts it against the hop budget. A call that runs through the pipeline
/// again was counted before.
pub(crate) fn admit(layer: &ToolExecutionLayer, call: &PipelineCall) -> Result<(), Box<Refusal>> {
    if call.caller.session.is_none() || call.worker_session.get().is_some() {
        return Ok(());
    }
    let session = spend_hop(layer, call)?;
    if session.allows(&call.tool_name, &call.snapshot) {
        return Ok(());
    }
    let shown = shorten(&call.tool_name, MAX_QUOTED_CHARS);
    let reason = format!("Tool {} is not in the allowlist of this session", shown.escape_debug());
    let hint = format!("allowed here: {}", session.terms.allowlist_text());
    Err(Box::new(Refusal::new(&shown, RefusalCode::NotInAllowlist, reason).with_hint(hint)))
}

/// Counts a call against the hop budget, whatever its result.
pub(super) fn spend_hop(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
) -> Result<Arc<WorkerSession>, Box<Refusal>> {
    let id = call.caller.session.as_deref().unwrap_or_default();
    let Some(session) = layer.sessions.find(id) else { return Err(closed_refusal(call)) };
    let session = Arc::clone(call.worker_session.get_or_init(|| session));
    match session.spend_hop() {
        Ok(hop) => {
            let hop_budget = session.budget().hops;
            emit(TelemetryEvent::WorkerInnerCall {
                call: recorder::subject(call, &call.tool_name),
                hop,
                hop_budget,
            });
            Ok(session)
        }
        Err(exhausted) => Err(exhausted_refusal(call, &session, exhausted)),
    }
}

/// Adds the cost of a call that is about to run, or fails if the cost cap was exceeded in the meantime.
pub(crate) fn charge(call: &PipelineCall, tool: &ToolName) -> Result<(), Failure> {
    let Some(session) = call.worker_session.get() else { return Ok(()) };
    match session.charge(call.snapshot.policy.cost_per_call(tool)) {
        Ok(Some((cost, cap))) => {
            emit(TelemetryEvent::WorkerToolCostWarning {
                call: recorder::subject(call, tool.as_str()),
                cost,
                cap,
            });
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(exhausted) => {
            let refusal = exhausted_refusal(call, session, exhausted);
            let failure = Failure::new(FailureKind::Denied, refusal.reason).with_hint("nothing was run");
            Err(Failure { output: Some(json!({"outcome": refusal.code})), ..failure })
        }
    }
}

/// Cancels a call whose session was closed before the call was in the list of calls.
pub(crate) fn cancel_if_closed(call: &PipelineCall) {
    if call.worker_session.get().is_some_and(|session| session.closed.load(Ordering::SeqCst)) {
        call.tracker.stop().request(StoppedBy::Session);
    }
}

/// Adds the session report to a result: remaining budgets and the marks around untrusted content.
pub(crate) fn add_session_report(call: &PipelineCall, result: &mut ToolResult) {
    let Some(session) = call.worker_session.get() else { return };
    result.metadata.remaining.extend(remaining(session));
    let error = result.error.as_deref().unwrap_or_default();
    let marks = UntrustedMarkers::for_content(&format!("{}{error}", result.output));
    let turn = *session.turn();
    result.metadata.session = Some(SessionReport {
        id: session.id.clone(),
        hops_used: turn.hops,
        hop_budget: session.budget().hops,
        cost: turn.cost,
        cost_cap: session.budget().cap.mode_and_amount().map(|(mode, amount)| {
            let exceeded = turn.cost > amount;
            let prompt =
                || format!("This turn has cost {}, which exceeds its cap of {amount}. Continue?", turn.cost);
            let operator_prompt = exceeded.then(prompt);
            CostCapReport { mode: mode.to_owned(), amount, exceeded, operator_prompt }
        }),
        untrusted: marks,
    });
}

/// Remaining budgets of this turn.
pub(super) fn remaining(session: &WorkerSession) -> Map<String, Value> {
    let turn = *session.turn();
    let mut left = Map::from_iter([("hops".to_owned(), json!(turn.hops_left(session.budget())))]);
    if let Some((_, amount)) = session.budget().cap.mode_and_amount() {
        left.insert("cost".to_owned(), json!((amount - turn.cost).max(0.0)));
    }
    left
}

fn exhausted_refusal(
    call: &PipelineCall,
    session: &WorkerSession,
    exhausted: BudgetExhausted,
) -> Box<Refusal> {
    let hint = "answer with the results so far; the next turn begins with a full budget";
    let refusal = match exhausted {
        BudgetExhausted::Hops => {
            let hops = session.budget().hops;
            let reason = format!("Hop budget exhausted: all {hops} calls of this turn are used");
            Refusal::new(&call.tool_name, RefusalCode::HopBudgetExhausted, reason)
        }
        BudgetExhausted::Cost { cap } => {
            let cost = session.turn().cost;
            let reason = format!("Cost cap exceeded: this turn has cost {cost}, the cap is {cap}");
            Refusal::new(&call.tool_name, RefusalCode::CostCapExceeded, reason)
        }
    };
    Box::new(refusal.with_hint(hint))
}

/// Refusal of a message that is not a valid call.
pub(super) fn malformed_refusal(code: RefusalCode, reason: &str) -> Refusal {
    let message = format!("Invalid call: {reason}");
    let detail = if code == RefusalCode::TooLarge { "message_too_large" } else { "malformed_envelope" };
    let refusal = Refusal::new(super::MALFORMED_TOOL, code, message).with_detail(detail);
    let refusal = refusal.with_hint("send one JSON object per line, with the tool's name and its arguments");
    Refusal { schema_error: Some(reason.to_owned()), ..refusal }
}

fn closed_refusal(call: &PipelineCall) -> Box<Refusal> {
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, "This worker session is closed");
    let refusal = refusal.with_detail("session_closed").with_hint("the orchestrator can open a new session");
    Box::new(Refusal { retryable: false, ..refusal })
}
