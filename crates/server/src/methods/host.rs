//! `sinew/judge_host` and `sinew/review_host`: verdict and advice for a hook, before and after another host runs one
//! of its own tools. Nothing runs here.

use std::sync::Arc;

use approvals::ApprovalMode;
use execution::host::{HostCall, HostCallOrigin, HostCallOutcome, UnknownHost};
use execution::{CallRequest, ConnectionLoss, CuratedMapCheck};
use serde_json::json;
use tool::caller::CallerKey;
use tool::{Caller, CallerEndpoint, Progress, TraceContext};

use super::calls::{parse_deadline, parse_tool_name};
use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::peer_process;
use crate::rpc::{self, Params, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Returns the verdict for a call of another host. A denial is recorded in the ledger.
pub(crate) fn judge(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let host = parse_tool_name(&mut params, "host")?;
    let request = CallRequest {
        tool_name: parse_tool_name(&mut params, "tool_name")?,
        arguments: params.take("tool_input").ok_or_else(|| RpcError::missing("tool_input", "an object"))?,
        caller: Caller {
            client: Some(host.clone()),
            account: Some(host_key(session)),
            ..session.caller(CallerEndpoint::Hook)
        },
        trace: TraceContext::root(),
        deadline: parse_deadline(&mut params)?,
        cwd: params.optional("cwd")?,
        progress: Progress::default(),
        started: call.received_at,
        curated_map: CuratedMapCheck::Applied,
        idempotency_key: None,
        cancellation: call.cancellation,
        approval_mode: ApprovalMode::Never,
        approval_id: None,
        connection_loss: ConnectionLoss::StopsCall,
    };
    let origin = parse_origin(&mut params)?;
    let system_programs = params.optional("system_programs")?.unwrap_or_default();
    params.finish()?;
    let layer = Arc::clone(&agent.layer);
    Ok(MethodReply::deferred(async move {
        match layer.judge_host_call(HostCall { host, request, origin, system_programs }).await {
            Ok(verdict) => rpc::encode_result(&verdict),
            Err(unknown) => Err(unknown_host_error(&unknown)),
        }
    }))
}

/// Returns the identity that limits of a host are counted by. The session id in the message is not used for that: any
/// process can send any id.
fn host_key(session: &ConnectionState) -> CallerKey {
    session.peer.process.and_then(peer_process::host_of).map_or(session.account, CallerKey::Process)
}

/// Returns advice on a call that another host has run. It blocks nothing.
pub(crate) fn review(agent: &AgentContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let host = parse_tool_name(&mut params, "host")?;
    let review = read_review(&mut params)?;
    params.finish()?;
    let layer = Arc::clone(&agent.layer);
    Ok(MethodReply::deferred(async move {
        let advice =
            layer.review_host_call(&host, review).await.map_err(|error| unknown_host_error(&error))?;
        rpc::encode_result(&json!({"advice": advice}))
    }))
}

/// Parses the outcome: a response or an error, not both.
fn read_review(params: &mut Params) -> Result<HostCallOutcome, RpcError> {
    let tool = parse_tool_name(params, "tool_name")?;
    match (params.optional("error")?, params.take("tool_response")) {
        (Some(error), None) => Ok(HostCallOutcome::Failed { tool, error }),
        (None, Some(answer)) => Ok(HostCallOutcome::Succeeded { tool, answer }),
        (Some(_), Some(_)) => {
            Err(RpcError::invalid_params("error", "a call has a `tool_response` or an `error`, not both"))
        }
        (None, None) => Err(RpcError::missing("tool_response", "any value, or `error`")),
    }
}

fn unknown_host_error(unknown: &UnknownHost) -> RpcError {
    RpcError::invalid_params("host", &unknown.to_string())
}

fn parse_origin(params: &mut Params) -> Result<HostCallOrigin, RpcError> {
    Ok(HostCallOrigin {
        session_id: params.optional("session_id")?,
        tool_use_id: params.optional("tool_use_id")?,
        agent_id: params.optional("agent_id")?,
        prompt_id: params.optional("prompt_id")?,
    })
}
