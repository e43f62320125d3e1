//! `control/approvals.…` and `control/grants.…`: approval requests, the operator's decisions, and the standing
//! rules that these create.

use std::sync::Arc;
use std::time::Duration;

use approvals::{
    DecideError, DecisionOutcome, ListedApproval, OperatorDecision as Said, StandingRuleRequest,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::ControlContext;
use crate::connection_state::ConnectionState;
use crate::notify::Notifier;
use crate::rpc::{self, Params, RpcError, RpcReply};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Lists summaries of the approval requests that can be decided.
pub(super) fn list(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(MethodReply::deferred(async move {
        let listed: Vec<Value> = layer.approvals().list().await.iter().map(summary).collect();
        rpc::encode_result(&json!({"approvals": listed, "pin": layer.approvals().pin().is_set()}))
    }))
}

/// Returns a summary of one approval request. The full requests might not fit into one message.
fn summary(listed: &ListedApproval) -> Value {
    let ListedApproval { state, seconds_left, waiting, request: approval_request, .. } = listed;
    json!({
        "id": approval_request.id, "state": state, "seconds_left": seconds_left, "waiting": waiting, "tool": approval_request.tool,
        "summary": approval_request.summary, "caller": approval_request.caller, "session": approval_request.session, "risk": approval_request.risk,
        "mode": approval_request.mode, "call_id": approval_request.call_id, "trace_id": approval_request.trace_id, "requested_at": approval_request.requested_at,
    })
}

/// Returns one approval request in full, for the operator to read before a decision.
pub(super) fn show(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let id: String = call.params.only("id")?;
    let layer = Arc::clone(&control.layer);
    Ok(MethodReply::deferred(async move {
        match layer.approvals().get(&id).await {
            Some(listed) => rpc::encode_result(&listed),
            None => Err(RpcError::not_found(format!("there is no open approval `{id}`")).with_data("id", id)),
        }
    }))
}

/// Sends a `control/approvals.changed` notification for every change of an approval request, until the
/// connection is closed. The current requests come from `control/approvals.list`.
pub(super) fn watch(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    // Subscribed before the reply, so that every change after the reply is reported.
    let changes = control.layer.approvals().subscribe();
    Ok(MethodReply::follow(move |notifier| notify_changes(changes, notifier)))
}

async fn notify_changes(mut changes: watch::Receiver<u64>, notifier: Notifier) {
    while changes.changed().await.is_ok() {
        let change = *changes.borrow_and_update();
        notifier.notify("control/approvals.changed", &json!({"change": change})).await;
    }
}

/// Records the decision of the operator. The first decision written to disk counts; a later one gets the error
/// `already_decided`.
pub(super) fn decide(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let mut params = call.params;
    let (id, pin): (String, Option<String>) = (params.required("id")?, params.optional("pin")?);
    let text = parse_decision(&mut params)?;
    params.finish()?;
    let (layer, by) = (Arc::clone(&control.layer), session.operator());
    Ok(MethodReply::deferred(async move { decision_reply(&id, layer.decide(&id, text, &by, pin).await) }))
}

fn parse_decision(params: &mut Params) -> Result<Said, RpcError> {
    let answer: String = params.required("answer")?;
    Ok(match answer.as_str() {
        "approve" => match parse_standing_rule(params)? {
            Some(lasting) => Said::ApproveWithRule(lasting),
            None => Said::ApproveOnce,
        },
        "deny" => Said::Deny(params.optional("message")?),
        "edit" => Said::EditArguments(params.required::<Map<String, Value>>("arguments")?),
        _ => return Err(RpcError::invalid_params("answer", "`answer` must be approve, deny or edit")),
    })
}

/// Reads the terms of a standing rule: for a time, for patterns, or for the rest of the session. Returns
/// `None` for an approval of this call alone.
fn parse_standing_rule(params: &mut Params) -> Result<Option<StandingRuleRequest>, RpcError> {
    let seconds: Option<u64> = params.optional("for_seconds")?;
    let session: Option<bool> = params.optional("for_session")?;
    let patterns: Vec<String> = params.optional("patterns")?.unwrap_or_default();
    let displayed: Option<Vec<String>> = params.optional("rule")?;
    if seconds == Some(0) {
        return Err(RpcError::invalid_params("for_seconds", "`for_seconds` must be at least 1"));
    }
    if seconds.is_none() && session != Some(true) && patterns.is_empty() {
        return Ok(None);
    }
    Ok(Some(StandingRuleRequest { duration: seconds.map(Duration::from_secs), patterns, displayed }))
}

fn decision_reply(id: &str, decided: Result<DecisionOutcome, DecideError>) -> RpcReply {
    match decided {
        Ok(DecisionOutcome::Recorded) => rpc::encode_result(&json!({"id": id, "decided": true})),
        Ok(DecisionOutcome::RuleCreated { rule }) => {
            rpc::encode_result(&json!({"id": id, "decided": true, "grant": rule}))
        }
        Ok(DecisionOutcome::NewRequest { id: next }) => {
            rpc::encode_result(&json!({"id": id, "decided": false, "new_request_id": next}))
        }
        Ok(DecisionOutcome::Permitted) => {
            rpc::encode_result(&json!({"id": id, "decided": true, "no_approval_needed": true}))
        }
        Err(error) => Err(decide_error(&error).with_data("id", id)),
    }
}

/// Lists the standing rules that approve matching calls without a request.
pub(super) fn list_grants(
    control: &ControlContext,
    _: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    call.params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(MethodReply::deferred(async move {
        rpc::encode_result(&json!({"grants": layer.approvals().standing_rules().await}))
    }))
}

/// Revokes a standing rule. Matching calls need an approval again from then on.
pub(super) fn revoke_grant(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let id: String = call.params.only("id")?;
    let (layer, by) = (Arc::clone(&control.layer), session.operator());
    Ok(MethodReply::deferred(async move {
        match layer.approvals().revoke_rule(&id, &by).await {
            Ok(()) => rpc::encode_result(&json!({"id": id, "revoked": true})),
            Err(error) => Err(decide_error(&error).with_data("id", id)),
        }
    }))
}

/// Converts the error to a JSON-RPC error with a code for programs.
fn decide_error(error: &DecideError) -> RpcError {
    let word = match error {
        DecideError::Unknown(_) | DecideError::UnknownRule(_) => "not_found",
        DecideError::AlreadyDecided { .. } => "already_decided",
        DecideError::NotDisplayed { .. } => "rule_not_displayed",
        DecideError::InvalidRule(_) => "no_such_rule",
        DecideError::EditRefused(_) => "not_edited",
        DecideError::MessageTooLong(_) => "message_too_long",
        DecideError::Pin(error) => return super::pin_error(error),
        DecideError::NotRecorded(_) => "ledger_unavailable",
        DecideError::RuleNotRecorded(_) => "rule_not_recorded",
        DecideError::InternalFault => "internal_fault",
    };
    let refused = RpcError::server(word, error.to_string());
    match error {
        DecideError::NotDisplayed { lines } => refused.with_data("rule", lines),
        _ => refused,
    }
}
