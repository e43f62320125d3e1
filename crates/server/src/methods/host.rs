//! `sinew/judge_host` and `sinew/review_host`: verdict and advice for a hook, before and after another host runs one
//! of its own tools. Nothing runs here.

use std::sync::Arc;

use execution::{Asking, CuratedMap, HostCall, HostReview, Origin, Request, UnknownHost};
use serde_json::json;
use tool::{Caller, Door, Progress, TraceContext};

use super::calls::{deadline, tool_name};
use crate::agent::Agent;
use crate::rpc::{self, Params, RpcError};
use crate::service::{Answer, Call};
use crate::session::Session;

/// Returns the verdict for a call of another host. A denial is recorded in the ledger.
pub(crate) fn judge(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let host = tool_name(&mut params, "host")?;
    let request = Request {
        tool_name: tool_name(&mut params, "tool_name")?,
        arguments: params.take("tool_input").ok_or_else(|| RpcError::missing("tool_input", "an object"))?,
        caller: Caller { client: Some(host.clone()), ..session.caller(Door::Hook) },
        trace: TraceContext::root(),
        deadline: deadline(&mut params)?,
        cwd: params.want("cwd")?,
        progress: Progress::default(),
        started: call.began,
        curated_map: CuratedMap::Asked,
        idempotency_key: None,
        withdrawn: call.withdrawn,
        asking: Asking::Never,
        approval_id: None,
    };
    let origin = origin(&mut params)?;
    params.finish()?;
    let layer = Arc::clone(&agent.layer);
    Ok(Answer::later(async move {
        match layer.judge_host(HostCall { host, request, origin }).await {
            Ok(verdict) => rpc::answer(&verdict),
            Err(unknown) => Err(unknown_host(&unknown)),
        }
    }))
}

/// Returns advice on a call that another host has run. It blocks nothing.
pub(crate) fn review(agent: &Agent, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let host = tool_name(&mut params, "host")?;
    let review = read_review(&mut params)?;
    params.finish()?;
    let layer = Arc::clone(&agent.layer);
    Ok(Answer::later(async move {
        let advice = layer.review_host(&host, review).await.map_err(|error| unknown_host(&error))?;
        rpc::answer(&json!({"advice": advice}))
    }))
}

/// Parses the outcome: a response or an error, not both.
fn read_review(params: &mut Params) -> Result<HostReview, RpcError> {
    let tool = tool_name(params, "tool_name")?;
    match (params.want("error")?, params.take("tool_response")) {
        (Some(error), None) => Ok(HostReview::Failed { tool, error }),
        (None, Some(answer)) => Ok(HostReview::Answered(answer)),
        (Some(_), Some(_)) => {
            Err(RpcError::invalid_params("error", "a call has a `tool_response` or an `error`, not both"))
        }
        (None, None) => Err(RpcError::missing("tool_response", "any value, or `error`")),
    }
}

fn unknown_host(unknown: &UnknownHost) -> RpcError {
    RpcError::invalid_params("host", &unknown.to_string())
}

fn origin(params: &mut Params) -> Result<Origin, RpcError> {
    Ok(Origin {
        session_id: params.want("session_id")?,
        tool_use_id: params.want("tool_use_id")?,
        agent_id: params.want("agent_id")?,
        prompt_id: params.want("prompt_id")?,
    })
}
