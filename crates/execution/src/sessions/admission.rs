//! Admission stage of the pipeline for calls of a worker: hop budget, cost cap and allowlist. Also adds the
//! session report to every result of such a call.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};
use telemetry::{Event, emit};
use tool::{
    CostCapReport, Failure, FailureKind, LONGEST_WORD, Marks, Refusal, RefusalCode, SessionReport, ToolName,
    ToolResult, shorten,
};

use super::WorkerSession;
use super::budget::Exhausted;
use crate::call::Call;
use crate::calls::StoppedBy;
use crate::layer::ToolExecutionLayer;
use crate::recorder;

/// Admits a call of a worker and counts it against the hop budget. A call that runs through the pipeline
/// again was counted before.
pub(crate) fn admit(layer: &ToolExecutionLayer, call: &Call) -> Result<(), Box<Refusal>> {
    if call.caller.session.is_none() || call.worker.get().is_some() {
        return Ok(());
    }
    let session = spend_hop(layer, call)?;
    if session.allows(&call.tool_name, &call.world) {
        return Ok(());
    }
    let shown = shorten(&call.tool_name, LONGEST_WORD);
    let reason = format!("Tool {} is not in the allowlist of this session", shown.escape_debug());
    let hint = format!("allowed here: {}", session.terms.listed());
    Err(Box::new(Refusal::new(&shown, RefusalCode::NotInAllowlist, reason).hint(hint)))
}

/// Counts a call against the hop budget, whatever its result.
pub(super) fn spend_hop(layer: &ToolExecutionLayer, call: &Call) -> Result<Arc<WorkerSession>, Box<Refusal>> {
    let id = call.caller.session.as_deref().unwrap_or_default();
    let Some(session) = layer.sessions.find(id) else { return Err(closed(call)) };
    let session = Arc::clone(call.worker.get_or_init(|| session));
    match session.spend_hop() {
        Ok(hop) => {
            let hop_budget = session.budget().hops;
            emit(Event::WorkerInnerCall { call: recorder::subject(call, &call.tool_name), hop, hop_budget });
            Ok(session)
        }
        Err(exhausted) => Err(spent(call, &session, exhausted)),
    }
}

/// Adds the cost of a call that is about to run, or fails if the cost cap was exceeded in the meantime.
pub(crate) fn charge(call: &Call, tool: &ToolName) -> Result<(), Failure> {
    let Some(session) = call.worker.get() else { return Ok(()) };
    match session.charge(call.world.policy.cost_of(tool)) {
        Ok(Some((cost, cap))) => {
            emit(Event::WorkerToolCostWarning { call: recorder::subject(call, tool.as_str()), cost, cap });
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(exhausted) => {
            let refusal = spent(call, session, exhausted);
            let failure = Failure::new(FailureKind::Denied, refusal.reason).hint("nothing was run");
            Err(Failure { output: Some(json!({"outcome": refusal.code})), ..failure })
        }
    }
}

/// Cancels a call whose session was closed before the call was in the list of calls.
pub(crate) fn end_if_closed(call: &Call) {
    if call.worker.get().is_some_and(|session| session.closed.load(Ordering::SeqCst)) {
        call.track.stop().order(StoppedBy::Session);
    }
}

/// Adds the session report to a result: remaining budgets and the marks around untrusted content.
pub(crate) fn report(call: &Call, result: &mut ToolResult) {
    let Some(session) = call.worker.get() else { return };
    result.metadata.remaining.extend(remaining(session));
    let error = result.error.as_deref().unwrap_or_default();
    let marks = Marks::around(&format!("{}{error}", result.output));
    let turn = *session.turn();
    result.metadata.session = Some(SessionReport {
        id: session.id.clone(),
        hops_used: turn.hops,
        hop_budget: session.budget().hops,
        cost: turn.cost,
        cost_cap: session.budget().cap.stated().map(|(mode, amount)| {
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
    if let Some((_, amount)) = session.budget().cap.stated() {
        left.insert("cost".to_owned(), json!((amount - turn.cost).max(0.0)));
    }
    left
}

fn spent(call: &Call, session: &WorkerSession, exhausted: Exhausted) -> Box<Refusal> {
    let hint = "answer with the results so far; the next turn begins with a full budget";
    let refusal = match exhausted {
        Exhausted::Hops => {
            let hops = session.budget().hops;
            let reason = format!("Hop budget exhausted: all {hops} calls of this turn are used");
            Refusal::new(&call.tool_name, RefusalCode::HopBudgetExhausted, reason)
        }
        Exhausted::Cost { cap } => {
            let cost = session.turn().cost;
            let reason = format!("Cost cap exceeded: this turn has cost {cost}, the cap is {cap}");
            Refusal::new(&call.tool_name, RefusalCode::CostCapExceeded, reason)
        }
    };
    Box::new(refusal.hint(hint))
}

/// Refusal of a message that is not a valid call.
pub(super) fn malformed(reason: &str) -> Refusal {
    let message = format!("Invalid call: {reason}");
    let refusal =
        Refusal::new(super::MALFORMED, RefusalCode::InvalidArguments, message).detail("malformed_envelope");
    let refusal = refusal.hint("send one JSON object per line, with the tool's name and its arguments");
    Refusal { schema_error: Some(reason.to_owned()), ..refusal }
}

fn closed(call: &Call) -> Box<Refusal> {
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, "This worker session is closed");
    let refusal = refusal.detail("session_closed").hint("the orchestrator can open a new session");
    Box::new(Refusal { retryable: false, ..refusal })
}
