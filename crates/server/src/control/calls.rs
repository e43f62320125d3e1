//! `control/calls.…`, `control/execute` and `control/explain`: running calls, and calls by the operator.

use std::sync::Arc;

use execution::{Cancelled, CuratedMap, Hearer};
use serde_json::json;
use tool::{CallId, Caller, Door};

use super::Control;
use crate::methods::calls;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call};
use crate::session::Session;

/// Lists the calls that have not ended, with the state of each.
pub(super) fn list(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    Ok(Answer::now(&json!({"calls": control.layer.calls()})))
}

/// Ends a call at any stage, with every process it started.
pub(super) fn cancel(control: &Control, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let id: CallId = call.params.only("call_id")?;
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move {
        match layer.cancel(id).await {
            Cancelled::Ended => rpc::answer(&json!({"call_id": id, "ended": true})),
            Cancelled::Told => rpc::answer(&json!({"call_id": id, "ended": false})),
            Cancelled::NotFound => {
                Err(RpcError::not_found(format!("no call `{id}` is in progress")).with("call_id", id))
            }
        }
    }))
}

/// Runs a tool call by the operator, through the same pipeline as any other call. Only this method can skip the
/// curated map, to replay a call unchanged. The schema check and the judge cannot be skipped.
pub(super) fn execute(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let (mut request, mut params) = calls::request(session, call)?;
    if params.want("skip_guardrail")?.unwrap_or(false) {
        request.curated_map = CuratedMap::LeftOut;
    }
    params.finish()?;
    request.caller = Caller { door: Door::Control, ..request.caller };
    let layer = Arc::clone(&control.layer);
    Ok(Answer::later(async move { rpc::answer(&layer.execute(request).await) }))
}

/// Explains to the operator how a call on the agent socket would be decided, in any mode and including facts about
/// the files it names. Nothing runs, and nothing is recorded.
pub(super) fn explain(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    calls::explain_to(&control.layer, session, call, Hearer::Operator)
}
