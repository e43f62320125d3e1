//! `control/approvals.…` and `control/grants.…`: approval requests, the operator's decisions, and the standing
//! rules that these create.

use std::sync::Arc;
use std::time::Duration;

use execution::{Answer as Said, DecideError, Decided, Lasting, Listed};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tool::Door;

use super::Control;
use crate::notify::Notifier;
use crate::rpc::{self, Params, Reply, RpcError};
use crate::service::{Answer, Call};
use crate::session::Session;

/// Lists summaries of the approval requests that can be decided.
pub(super) fn list(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        let listed: Vec<Value> = layer.approvals().await.iter().map(in_short).collect();
        rpc::answer(&json!({"approvals": listed, "pin": layer.pin().is_set()}))
    }))
}

/// Returns a summary of one approval request. The full requests might not fit into one message.
fn in_short(listed: &Listed) -> Value {
    let Listed { state, seconds_left, waiting, card, .. } = listed;
    json!({
        "id": card.id, "state": state, "seconds_left": seconds_left, "waiting": waiting, "tool": card.tool,
        "summary": card.summary, "caller": card.caller, "session": card.session, "risk": card.risk,
        "mode": card.mode, "call_id": card.call_id, "trace_id": card.trace_id, "asked_at": card.asked_at,
    })
}

/// Returns one approval request in full, for the operator to read before a decision.
pub(super) fn show(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let id: String = call.params.only("id")?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        match layer.approval(&id).await {
            Some(listed) => rpc::answer(&listed),
            None => Err(RpcError::not_found(format!("there is no open approval `{id}`")).with("id", id)),
        }
    }))
}

/// Sends a `control/approvals.changed` notification for every change of an approval request, until the
/// connection is closed. The current requests come from `control/approvals.list`.
pub(super) fn watch(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    // Subscribed before the reply, so that every change after the reply is reported.
    let changes = control.layer.approvals_changes();
    Ok(Answer::follow(move |notifier| notify_changes(changes, notifier)))
}

async fn notify_changes(mut changes: watch::Receiver<u64>, notifier: Notifier) {
    while changes.changed().await.is_ok() {
        let change = *changes.borrow_and_update();
        notifier.tell("control/approvals.changed", &json!({"change": change})).await;
    }
}

/// Records the decision of the operator. The first decision written to disk counts; a later one gets the error
/// `already_decided`.
pub(super) fn decide(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let (id, pin): (String, Option<String>) = (params.need("id")?, params.want("pin")?);
    let said = said(&mut params)?;
    params.finish()?;
    let (layer, by) = (Arc::clone(&control.layer), session.caller(Door::Socket));
    Ok(Answer::later(async move { told(&id, layer.decide(&id, said, &by, pin).await) }))
}

fn said(params: &mut Params) -> Result<Said, RpcError> {
    let answer: String = params.need("answer")?;
    Ok(match answer.as_str() {
        "approve" => match lasting(params)? {
            Some(lasting) => Said::Lasting(lasting),
            None => Said::Once,
        },
        "deny" => Said::Deny(params.want("message")?),
        "edit" => Said::Edit(params.need::<Map<String, Value>>("arguments")?),
        _ => return Err(RpcError::invalid_params("answer", "`answer` must be approve, deny or edit")),
    })
}

/// Reads the terms of a standing rule: for a time, for patterns, or for the rest of the session. Returns
/// `None` for an approval of this call alone.
fn lasting(params: &mut Params) -> Result<Option<Lasting>, RpcError> {
    let seconds: Option<u64> = params.want("for_seconds")?;
    let session: Option<bool> = params.want("for_session")?;
    let patterns: Vec<String> = params.want("patterns")?.unwrap_or_default();
    let displayed: Option<Vec<String>> = params.want("rule")?;
    if seconds == Some(0) {
        return Err(RpcError::invalid_params("for_seconds", "`for_seconds` must be at least 1"));
    }
    if seconds.is_none() && session != Some(true) && patterns.is_empty() {
        return Ok(None);
    }
    Ok(Some(Lasting { lasts: seconds.map(Duration::from_secs), patterns, displayed }))
}

fn told(id: &str, decided: Result<Decided, DecideError>) -> Reply {
    match decided {
        Ok(Decided::Recorded) => rpc::answer(&json!({"id": id, "decided": true})),
        Ok(Decided::Standing { rule }) => rpc::answer(&json!({"id": id, "decided": true, "grant": rule})),
        Ok(Decided::Asked { id: next }) => rpc::answer(&json!({"id": id, "decided": false, "asks_as": next})),
        Ok(Decided::Runs) => rpc::answer(&json!({"id": id, "decided": true, "needs_nobody": true})),
        Err(error) => Err(refused(&error).with("id", id)),
    }
}

/// Lists the standing rules that approve matching calls without a request.
pub(super) fn list_grants(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move { rpc::answer(&json!({"grants": layer.standing_rules().await})) }))
}

/// Revokes a standing rule. Matching calls need an approval again from then on.
pub(super) fn revoke_grant(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let id: String = call.params.only("id")?;
    let (layer, by) = (Arc::clone(&control.layer), session.caller(Door::Socket));
    Ok(Answer::later(async move {
        match layer.revoke_rule(&id, &by).await {
            Ok(()) => rpc::answer(&json!({"id": id, "revoked": true})),
            Err(error) => Err(refused(&error).with("id", id)),
        }
    }))
}

/// Converts the error to a JSON-RPC error with a code for programs.
fn refused(error: &DecideError) -> RpcError {
    let word = match error {
        DecideError::Unknown(_) | DecideError::NoSuchGrant(_) => "not_found",
        DecideError::Over { .. } => "already_decided",
        DecideError::NotDisplayed { .. } => "rule_not_displayed",
        DecideError::NoRule(_) => "no_such_rule",
        DecideError::NotEdited(_) => "not_edited",
        DecideError::LongMessage(_) => "message_too_long",
        DecideError::Pin(error) => return super::pin_error(error),
        DecideError::NotRecorded(_) => "ledger_unavailable",
        DecideError::RuleNotRecorded(_) => "rule_not_recorded",
        DecideError::Crashed => "internal_fault",
    };
    let refused = RpcError::server(word, error.to_string());
    match error {
        DecideError::NotDisplayed { lines } => refused.with("rule", lines),
        _ => refused,
    }
}
