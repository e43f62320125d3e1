//! `control/sessions.…`: worker sessions of all orchestrators.

use serde_json::json;

use super::ControlContext;
use crate::connection_state::ConnectionState;
use crate::rpc::RpcError;
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Lists the open worker sessions, with the opener and the remaining budgets of each.
pub(super) fn list(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    Ok(MethodReply::now(&json!({"sessions": control.layer.worker_sessions()})))
}

/// Closes any worker session, with its socket and its running calls.
pub(super) fn close(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let id: String = call.params.only("session_id")?;
    if control.worker_sockets.close_as_operator(&id) {
        return Ok(MethodReply::now(&json!({"session_id": id, "closed": true})));
    }
    Err(RpcError::not_found(format!("no session `{id}` is open")).with_data("session_id", id))
}
