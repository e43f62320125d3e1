//! `server/discover`: server information for the stateless era, in place of a handshake.

use serde::Serialize;
use serde_json::{Map, Value};

use super::era::{self, Era, Keeping};
use super::{INSTRUCTIONS, STATELESS, announced, capabilities};
use crate::agent::Agent;
use crate::rpc::RpcError;
use crate::service::{Answer, Call};
use crate::session::Session;

const METHOD: &str = "server/discover";

/// Result of `server/discover`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Discovered {
    supported_versions: [&'static str; 1],
    capabilities: Value,
    instructions: &'static str,
    #[serde(flatten)]
    keeping: Keeping,
    #[serde(rename = "_meta")]
    meta: Map<String, Value>,
}

pub(crate) fn run(agent: &Agent, session: &mut Session, mut call: Call) -> Result<Answer, RpcError> {
    let (era, _) = Era::of(session, &mut call.params)?;
    let Some(keeping) = era.keeping() else {
        return Err(RpcError::unknown_method(METHOD, []));
    };
    let discovered = Discovered {
        supported_versions: [STATELESS],
        capabilities: capabilities(),
        instructions: INSTRUCTIONS,
        keeping,
        meta: announced(&agent.limits).into_iter().chain([era::signature()]).collect(),
    };
    Ok(Answer::now(&discovered))
}
