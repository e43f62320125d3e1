//! `sinew/status` and `sinew/tools`: status of the daemon, limits for clients, and tool definitions.

use execution::{Status, ToolFilter};
use serde::Serialize;
use serde_json::{Value, json};
use tool::Format;

use crate::agent::Agent;
use crate::rpc::RpcError;
use crate::service::{Answer, Call};
use crate::session::Session;
use crate::settings::Limits;

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

/// Returns the status of the daemon.
pub(crate) fn status(agent: &Agent, _: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    Ok(Answer::now(&StatusReply::new(agent.layer.status(), &agent.limits)))
}

/// Returns the tool definitions, in the format the client requests.
pub(crate) fn tools(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let filter = ToolFilter { mode: params.want("mode")?, category: params.want("category")? };
    let format: Format = params.want("format")?.unwrap_or_default();
    params.finish()?;
    let tools = agent.layer.tools_in(session.worker.as_deref(), &filter);
    let tools: Vec<Value> = tools.iter().map(|definition| format.export(definition)).collect();
    Ok(Answer::now(&json!({"format": format, "tools": tools})))
}
