//! `sinew/session.close`: closes a worker session, with its socket and its running calls. For the
//! orchestrator.

use serde_json::json;

use super::session_open::session_of;
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/session.close", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let id = session_of(agent, session, &mut params)?;
    params.finish()?;
    agent.workers()?.close(session, &id);
    Ok(Answer::Now(rpc::answer(&json!({"session_id": id, "closed": true}))))
}
