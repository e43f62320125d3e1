//! `control/approvals.decide`: records the decision of the operator. The first decision written to disk
//! counts; a later one gets the error `already_decided`.

use std::sync::Arc;
use std::time::Duration;

use execution::{Answer as Said, DecideError, Decided, Lasting};
use serde_json::{Map, Value, json};
use tool::Door;

use super::Control;
use crate::rpc::{self, Params, Reply, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/approvals.decide", run };

fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
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

/// Converts the error to a JSON-RPC error with a code for programs.
pub(super) fn refused(error: &DecideError) -> RpcError {
    let word = match error {
        DecideError::Unknown(_) | DecideError::NoSuchGrant(_) => "not_found",
        DecideError::Over { .. } => "already_decided",
        DecideError::NotDisplayed { .. } => "rule_not_displayed",
        DecideError::NoRule(_) => "no_such_rule",
        DecideError::NotEdited(_) => "not_edited",
        DecideError::LongMessage(_) => "message_too_long",
        DecideError::Pin(error) => super::pin_word(error),
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
