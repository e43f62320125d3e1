//! `sinew/session.turn`: starts the next turn of a worker session and resets its budgets. For the
//! orchestrator.

use super::session_open::{error, session_of};
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/session.turn", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id = session_of(agent, session, &mut params)?;
    params.finish()?;
    let reply = agent.layer.next_turn(&id).map_err(|refused| error(&refused))?;
    Ok(Answer::Now(rpc::answer(&reply)))
}
