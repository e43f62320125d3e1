//! `sinew/judge_host`: verdict for a hook, before another host runs one of its own tools. Nothing runs here;
//! a denial is recorded in the ledger.

use std::sync::Arc;

use execution::{Asking, CuratedMap, HostCall, Origin, Request, UnknownHost};
use tool::{Caller, Door, Progress, TraceContext};

use super::execute::{deadline, tool_name};
use crate::agent::Agent;
use crate::rpc::{self, Params, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/judge_host", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
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

pub(super) fn unknown_host(unknown: &UnknownHost) -> RpcError {
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
