//! The first stage of the road, for calls of a worker: is there a call left, is there money left, is the tool on the
//! list. And what every result of such a call says of what is left.

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

/// Lets a worker's call in, and spends one for it. A call that walks again was let in before.
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

/// Spends a call, whatever becomes of it.
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

/// Adds what a call costs, now that it runs; or why it does not.
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

/// Ends a call whose session was closed before it was on the list of those that can be told so.
pub(crate) fn end_if_closed(call: &Call) {
    if call.worker.get().is_some_and(|session| session.closed.load(Ordering::SeqCst)) {
        call.track.stop().order(StoppedBy::Session);
    }
}

/// Says in a result what is left of its session, and between which marks its content stands.
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
                || format!("This turn has cost {}, more than the {amount} it may: go on?", turn.cost);
            let operator_prompt = exceeded.then(prompt);
            CostCapReport { mode: mode.to_owned(), amount, exceeded, operator_prompt }
        }),
        untrusted: marks,
    });
}

/// What is left of this turn.
pub(super) fn remaining(session: &WorkerSession) -> Map<String, Value> {
    let turn = *session.turn();
    let mut left = Map::from_iter([("hops".to_owned(), json!(turn.hops_left(session.budget())))]);
    if let Some((_, amount)) = session.budget().cap.stated() {
        left.insert("cost".to_owned(), json!((amount - turn.cost).max(0.0)));
    }
    left
}

fn spent(call: &Call, session: &WorkerSession, exhausted: Exhausted) -> Box<Refusal> {
    let hint = "answer with what there is; the next turn begins with a full budget";
    let refusal = match exhausted {
        Exhausted::Hops => {
            let hops = session.budget().hops;
            let reason = format!("Hop budget exhausted: all {hops} calls of this turn are used up");
            Refusal::new(&call.tool_name, RefusalCode::HopBudgetExhausted, reason)
        }
        Exhausted::Cost { cap } => {
            let cost = session.turn().cost;
            let reason = format!("Cost cap exceeded: this turn has cost {cost}, and may cost {cap}");
            Refusal::new(&call.tool_name, RefusalCode::CostCapExceeded, reason)
        }
    };
    Box::new(refusal.hint(hint))
}

/// A message that is no call.
pub(super) fn malformed(reason: &str) -> Refusal {
    let said = format!("Invalid call: {reason}");
    let refusal =
        Refusal::new(super::MALFORMED, RefusalCode::InvalidArguments, said).detail("malformed_envelope");
    let refusal = refusal.hint("send one JSON object per line, with the tool's name and its arguments");
    Refusal { schema_error: Some(reason.to_owned()), ..refusal }
}

fn closed(call: &Call) -> Box<Refusal> {
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, "This worker session is closed");
    let refusal = refusal.detail("session_closed").hint("whoever opened it may open another");
    Box::new(Refusal { retryable: false, ..refusal })
}
