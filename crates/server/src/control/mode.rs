//! `control/mode.…` and `control/pin.set`: the operational mode, and the PIN that protects its relaxation.

use std::sync::Arc;

use execution::{ModeError, ModeSet};
use serde_json::json;
use tool::{Door, Mode};

use super::{Control, pin_error};
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call};
use crate::session::Session;

const LONGEST_REASON: usize = 1000;

/// Returns the current operational mode, and the mode that a transition rule proposes.
pub(super) fn get(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    let mut reply = json!({"mode": control.layer.mode()});
    if let (Some(reply), Some(proposal)) = (reply.as_object_mut(), control.layer.status().proposal) {
        reply.insert("proposal".to_owned(), json!(proposal));
    }
    Ok(Answer::now(&reply))
}

/// Changes the operational mode and records the reason in the ledger.
pub(super) fn set(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let (mode, reason): (Mode, String) = (params.need("mode")?, params.need("reason")?);
    let pin: Option<String> = params.want("pin")?;
    params.finish()?;
    if reason.trim().is_empty() || reason.len() > LONGEST_REASON {
        let message = format!("`reason` must not be blank and must have at most {LONGEST_REASON} bytes");
        return Err(RpcError::invalid_params("reason", &message));
    }
    let (layer, caller) = (Arc::clone(&control.layer), session.caller(Door::Socket));
    Ok(Answer::later(async move {
        // A change to a stricter mode needs no PIN.
        let proof = match ModeSet::needs_pin(layer.status().mode, mode) {
            true => Some(layer.pin().verify(pin).await.map_err(|error| pin_error(&error))?),
            false => None,
        };
        match layer.set_mode(mode, &reason, &caller, proof).await {
            Ok(ModeSet { previous, recorded: true }) => {
                rpc::answer(&json!({"mode": mode, "previous": previous}))
            }
            Ok(ModeSet { previous, recorded: false }) => {
                rpc::answer(&json!({"mode": mode, "previous": previous, "recorded": false}))
            }
            Err(error) => {
                let word = match error {
                    ModeError::Unproven => "pin_needed",
                    ModeError::NoWay { .. } => "no_such_way",
                    ModeError::NotRecorded(_) => "mode_not_changed",
                };
                Err(RpcError::server(word, error.to_string()))
            }
        }
    }))
}

/// Sets or removes the operator's PIN. Requires the current PIN if there is one.
pub(super) fn set_pin(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let (given, new): (Option<String>, Option<String>) = (params.want("pin")?, params.want("new")?);
    params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        layer.pin().set(given, new).await.map_err(|error| pin_error(&error))?;
        rpc::answer(&json!({"pin": layer.pin().is_set()}))
    }))
}
