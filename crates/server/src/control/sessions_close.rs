//! `control/sessions.close`: closes any worker session, with its socket and its running calls.

use serde_json::json;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/sessions.close", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id: String = params.need("session_id")?;
    params.finish()?;
    if control.workers.end(&id) {
        return Ok(Answer::Now(rpc::answer(&json!({"session_id": id, "closed": true}))));
    }
    let message = format!("no session `{id}` is open");
    Err(RpcError::server("not_found", message).with("session_id", id))
}
