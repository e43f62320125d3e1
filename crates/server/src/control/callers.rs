//! `control/callers.…`: callers that are suspended.

use std::sync::Arc;

use serde_json::json;

use super::{ControlContext, pin_error};
use crate::connection_state::ConnectionState;
use crate::rpc::{self, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Lists the suspended callers, with the reason and the remaining time of each.
pub(super) fn list(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    Ok(MethodReply::now(&json!({"suspended": control.layer.suspended_callers()})))
}

/// Ends the suspension of a caller. It loosens, so it takes the PIN.
pub(super) fn resume(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let mut params = call.params;
    let id: String = params.required("caller")?;
    let pin: Option<String> = params.optional("pin")?;
    params.finish()?;
    let (layer, by) = (Arc::clone(&control.layer), session.operator());
    Ok(MethodReply::deferred(async move {
        layer.approvals().pin().verify(by.endpoint, pin).await.map_err(|error| pin_error(&error))?;
        if layer.resume_caller(&id, &by) {
            return rpc::encode_result(&json!({"caller": id, "resumed": true}));
        }
        Err(RpcError::not_found(format!("no caller `{id}` is suspended")).with_data("caller", id))
    }))
}
