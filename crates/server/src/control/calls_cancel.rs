//! `control/calls.cancel`: ends a call at any stage, with every process it started.

use std::sync::Arc;

use execution::Cancelled;
use serde_json::json;
use tool::CallId;

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/calls.cancel", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id: CallId = params.need("call_id")?;
    params.finish()?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        match layer.cancel(id).await {
            Cancelled::Ended => rpc::answer(&json!({"call_id": id, "ended": true})),
            Cancelled::Told => rpc::answer(&json!({"call_id": id, "ended": false})),
            Cancelled::NotFound => {
                let message = format!("no call `{id}` is in progress");
                Err(RpcError::server("not_found", message).with("call_id", id))
            }
        }
    }))
}
