//! `sinew/explain`: explains how a call would be decided, and by which rules. Nothing runs. An explanation
//! that reveals the content of files the call would change is recorded in the ledger.

use std::sync::Arc;

use execution::{Hearer, ToolExecutionLayer};

use super::execute;
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/explain", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    explained(&agent.layer, session, call, Hearer::Caller)
}

/// Explains the call that a message describes, with the detail that `audience` may see.
pub(crate) fn explained(
    layer: &Arc<ToolExecutionLayer>,
    session: &Session,
    call: Call,
    hearer: Hearer,
) -> Result<Answer, RpcError> {
    let (request, mut params) = execute::request(session, call)?;
    let mode = params.want("mode")?;
    params.finish()?;
    let layer = Arc::clone(layer);
    Ok(Answer::later(async move { rpc::answer(&layer.explain(request, mode, hearer).await) }))
}
