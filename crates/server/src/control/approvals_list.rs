//! `control/approvals.list`: summaries of the approval requests that can be decided.

use std::sync::Arc;

use execution::Listed;
use serde_json::{Value, json};

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/approvals.list", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
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
