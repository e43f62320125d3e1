//! `sinew/explain`: what would become of a call, and by which rules. Nothing runs, and nothing is recorded.

use std::sync::Arc;

use super::execute;
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/explain", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let (request, mut params) = execute::request(session, call)?;
    let mode = params.want("mode")?;
    params.finish()?;
    let layer = Arc::clone(&agent.layer);
    Ok(Answer::later(async move { rpc::answer(&layer.explain(request, mode).await) }))
}
