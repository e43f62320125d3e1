//! `control/mode.…` and `control/pin.set`: the operational mode, and the PIN that protects its relaxation.

use std::sync::Arc;

use approvals::PinError;
use execution::modes::{ModeChangeResult, ModeError};
use serde_json::json;
use tool::Mode;

use super::{ControlContext, pin_error};
use crate::connection_state::ConnectionState;
use crate::rpc::{self, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

const MAX_REASON_BYTES: usize = 1000;

/// Returns the current operational mode, and the mode that a transition rule proposes.
pub(super) fn get(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    let mut reply = json!({"mode": control.layer.mode()});
    if let (Some(reply), Some(proposal)) = (reply.as_object_mut(), control.layer.status().proposal) {
        reply.insert("proposal".to_owned(), json!(proposal));
    }
    Ok(MethodReply::now(&reply))
}

/// Changes the operational mode and records the reason in the ledger.
pub(super) fn set(control: &ControlContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let (mode, reason): (Mode, String) = (params.required("mode")?, params.required("reason")?);
    let pin: Option<String> = params.optional("pin")?;
    params.finish()?;
    if reason.trim().is_empty() || reason.len() > MAX_REASON_BYTES {
        let message = format!("`reason` must not be blank and must have at most {MAX_REASON_BYTES} bytes");
        return Err(RpcError::invalid_params("reason", &message));
    }
    let (layer, caller) = (Arc::clone(&control.layer), session.operator());
    Ok(MethodReply::deferred(async move {
        // A change to a stricter mode needs no PIN.
        let proof = match ModeChangeResult::needs_pin(layer.status().mode, mode) {
            true => Some(
                layer
                    .approvals()
                    .pin()
                    .verify(caller.endpoint, pin)
                    .await
                    .map_err(|error| pin_error(&error))?,
            ),
            false => None,
        };
        match layer.set_mode(mode, &reason, &caller, proof).await {
            Ok(ModeChangeResult { previous, recorded: true }) => {
                rpc::encode_result(&json!({"mode": mode, "previous": previous}))
            }
            Ok(ModeChangeResult { previous, recorded: false }) => {
                rpc::encode_result(&json!({"mode": mode, "previous": previous, "recorded": false}))
            }
            Err(error) => {
                let word = match error {
                    ModeError::PinRequired => "pin_needed",
                    ModeError::NoTransition { .. } => "no_such_transition",
                    ModeError::RestrictedByFleet { .. } => "restricted_by_fleet",
                    ModeError::NotRecorded(_) => "mode_not_changed",
                };
                Err(RpcError::server(word, error.to_string()))
            }
        }
    }))
}

/// Sets or removes the operator's PIN. Requires the current PIN if there is one.
pub(super) fn set_pin(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let mut params = call.params;
    let (given, new): (Option<String>, Option<String>) = (params.optional("pin")?, params.optional("new")?);
    params.finish()?;
    let layer = Arc::clone(&control.layer);
    // With a stolen session of a console, a page could choose the first PIN and then approve.
    if session.is_console && !layer.approvals().pin().is_set() {
        return Err(pin_error(&PinError::NotSet));
    }
    Ok(MethodReply::deferred(async move {
        layer.approvals().pin().set(given, new).await.map_err(|error| pin_error(&error))?;
        rpc::encode_result(&json!({"pin": layer.approvals().pin().is_set()}))
    }))
}
