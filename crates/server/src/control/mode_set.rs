//! `control/mode.set`: changes the operational mode and records the reason in the ledger.

use std::sync::Arc;

use execution::{ModeError, ModeSet};
use serde_json::json;
use tool::{Door, Mode};

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/mode.set", run };

const LONGEST_REASON: usize = 1000;

fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
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
            true => match layer.pin().verify(pin).await {
                Ok(proof) => Some(proof),
                Err(error) => return Err(RpcError::server(super::pin_word(&error), error.to_string())),
            },
            false => None,
        };
        match layer.set_mode(mode, &reason, &caller, proof).await {
            Ok(ModeSet { previous, recorded: true }) => {
                rpc::answer(&json!({"mode": mode, "previous": previous}))
            }
            Ok(ModeSet { previous, recorded: false }) => {
                rpc::answer(&json!({"mode": mode, "previous": previous, "recorded": false}))
            }
            Err(error @ ModeError::Unproven) => Err(RpcError::server("pin_needed", error.to_string())),
            Err(error @ ModeError::NoWay { .. }) => Err(RpcError::server("no_such_way", error.to_string())),
            Err(error @ ModeError::NotRecorded(_)) => {
                Err(RpcError::server("mode_not_changed", error.to_string()))
            }
        }
    }))
}
