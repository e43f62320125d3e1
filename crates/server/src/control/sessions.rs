//! `control/sessions.…`: worker sessions of all orchestrators.

use serde_json::json;

use super::Control;
use crate::rpc::RpcError;
use crate::service::{Answer, Call};
use crate::session::Session;

/// Lists the open worker sessions, with the opener and the remaining budgets of each.
pub(super) fn list(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    Ok(Answer::now(&json!({"sessions": control.layer.worker_sessions()})))
}

/// Closes any worker session, with its socket and its running calls.
pub(super) fn close(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let id: String = call.params.only("session_id")?;
    if control.workers.end(&id) {
        return Ok(Answer::now(&json!({"session_id": id, "closed": true})));
    }
    Err(RpcError::not_found(format!("no session `{id}` is open")).with("session_id", id))
}
