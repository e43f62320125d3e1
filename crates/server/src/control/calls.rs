//! `control/calls.…`, `control/execute` and `control/explain`: running calls, and calls by the operator.

use std::sync::Arc;

use approvals::ApprovalMode;
use execution::{CancelOutcome, CuratedMapCheck, ExplanationAudience};
use serde_json::json;
use tool::{CallId, Caller, CallerEndpoint};

use super::ControlContext;
use crate::connection_state::ConnectionState;
use crate::methods::calls;
use crate::rpc::{self, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Lists the calls that have not ended, with the state of each.
pub(super) fn list(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    Ok(MethodReply::now(&json!({"calls": control.layer.calls()})))
}

/// Ends a call at any stage, with every process it started.
pub(super) fn cancel(control: &ControlContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let id: CallId = call.params.only("call_id")?;
    let layer = Arc::clone(&control.layer);
    Ok(MethodReply::deferred(async move {
        match layer.cancel(id).await {
            CancelOutcome::Ended => rpc::encode_result(&json!({"call_id": id, "ended": true})),
            CancelOutcome::Requested => rpc::encode_result(&json!({"call_id": id, "ended": false})),
            CancelOutcome::NotFound => {
                Err(RpcError::not_found(format!("no call `{id}` is in progress")).with_data("call_id", id))
            }
        }
    }))
}

/// Runs a tool call by the operator, through the same pipeline as any other call. Only this method can skip the
/// curated map, to replay a call unchanged. The schema check and the judge cannot be skipped.
pub(super) fn execute(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    let (mut request, mut params) = calls::parse_request(session, call, ApprovalMode::Wait)?;
    if params.optional("skip_guardrail")?.unwrap_or(false) {
        request.curated_map = CuratedMapCheck::Skipped;
    }
    params.finish()?;
    request.caller = Caller { endpoint: CallerEndpoint::Control, ..request.caller };
    let layer = Arc::clone(&control.layer);
    Ok(MethodReply::deferred(async move { rpc::encode_result(&layer.execute(request).await) }))
}

/// Explains to the operator how a call on the agent socket would be decided, in any mode and including facts about
/// the files it names. Nothing runs, and nothing is recorded.
pub(super) fn explain(
    control: &ControlContext,
    session: &mut ConnectionState,
    call: MethodCall,
) -> MethodResult {
    calls::explain_to(&control.layer, session, call, ExplanationAudience::Operator)
}
