//! `sinew/session.spend`: what the worker's turn has cost outside of Sinew, such as its model. For the orchestrator.

use super::session_open::{error, session_of};
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/session.spend", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id = session_of(agent, session, &mut params)?;
    let cost: f64 = params.need("cost")?;
    params.finish()?;
    if cost < 0.0 {
        return Err(RpcError::invalid_params("cost", "`cost` must be 0 or more: what was spent stays spent"));
    }
    let reply = agent.layer.spend_in_session(&id, cost).map_err(|refused| error(&refused))?;
    Ok(Answer::Now(rpc::answer(&reply)))
}
