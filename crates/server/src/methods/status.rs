//! `sinew/status`: status of the daemon, and the limits for clients.

use execution::Status;
use serde::Serialize;

use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;
use crate::settings::Limits;

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/status", run };

/// Status of the execution layer and the limits of this server.
#[derive(Serialize)]
pub(crate) struct StatusReply {
    #[serde(flatten)]
    layer: Status,
    limits: LimitsReply,
}

/// Limits for clients.
#[derive(Serialize)]
pub(crate) struct LimitsReply {
    max_line_bytes: usize,
    max_connections: usize,
    max_in_flight_per_connection: usize,
}

impl StatusReply {
    pub(crate) fn new(layer: Status, limits: &Limits) -> Self {
        StatusReply { layer, limits: LimitsReply::new(limits) }
    }
}

impl LimitsReply {
    pub(crate) fn new(limits: &Limits) -> Self {
        LimitsReply {
            max_line_bytes: limits.max_line_bytes,
            max_connections: limits.max_connections,
            max_in_flight_per_connection: limits.max_in_flight,
        }
    }
}

fn run(agent: &Agent, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    Ok(Answer::Now(rpc::answer(&StatusReply::new(agent.layer.status(), &agent.limits))))
}
