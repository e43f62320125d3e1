//! `sinew/session.spend`: adds external cost of the worker's turn, such as model usage. For the orchestrator.

use super::session_open::{error, session_of};
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/session.spend", run };

/// Largest cost per request: far above real costs, and small enough that sums stay finite.
const MOST: f64 = 1e12;

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id = session_of(agent, session, &mut params)?;
    let cost: f64 = params.need("cost")?;
    params.finish()?;
    if !(0.0..=MOST).contains(&cost) {
        let message =
            format!("`cost` must be between 0 and {MOST}: costs can be added, but never taken back");
        return Err(RpcError::invalid_params("cost", &message));
    }
    let reply = agent.layer.spend_in_session(&id, cost).map_err(|refused| error(&refused))?;
    Ok(Answer::Now(rpc::answer(&reply)))
}
