//! `sinew/session.spend`: what the worker's turn has cost outside of Sinew, such as its model. For the orchestrator.

use super::session_open::{error, session_of};
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/session.spend", run };

/// More than anybody pays at a time, and little enough that sums of it stay numbers.
const MOST: f64 = 1e12;

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id = session_of(agent, session, &mut params)?;
    let cost: f64 = params.need("cost")?;
    params.finish()?;
    if !(0.0..=MOST).contains(&cost) {
        let message =
            format!("`cost` must be from 0 to {MOST}: what was spent stays spent, and can be added up");
        return Err(RpcError::invalid_params("cost", &message));
    }
    let reply = agent.layer.spend_in_session(&id, cost).map_err(|refused| error(&refused))?;
    Ok(Answer::Now(rpc::answer(&reply)))
}
