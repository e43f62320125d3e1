//! `sinew/status` and `sinew/tools`: status of the daemon, limits for clients, and tool definitions.

use execution::{LayerStatus, ToolFilter};
use serde::Serialize;
use tool::definition::ToolFormat;

use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::service::{MethodCall, MethodReply, MethodResult};
use crate::settings::ConnectionLimits;

/// Status of the execution layer and the limits of this server.
#[derive(Serialize)]
pub(crate) struct StatusReply {
    #[serde(flatten)]
    layer: LayerStatus,
    limits: LimitsReply,
}

/// Limits for clients.
#[derive(Serialize)]
pub(crate) struct LimitsReply {
    max_line_bytes: usize,
    max_connections: usize,
    /// Setting that the file descriptor limit reduces to `max_connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreduced_max_connections: Option<usize>,
    max_in_flight_per_connection: usize,
}

impl StatusReply {
    pub(crate) fn new(layer: LayerStatus, limits: &ConnectionLimits) -> Self {
        StatusReply { layer, limits: LimitsReply::new(limits) }
    }
}

impl LimitsReply {
    pub(crate) fn new(limits: &ConnectionLimits) -> Self {
        LimitsReply {
            max_line_bytes: limits.max_line_bytes,
            max_connections: limits.max_connections,
            unreduced_max_connections: limits.unreduced_connections,
            max_in_flight_per_connection: limits.max_in_flight,
        }
    }
}

/// Returns the status of the daemon.
pub(crate) fn status(agent: &AgentContext, _: &mut ConnectionState, call: MethodCall) -> MethodResult {
    call.params.finish()?;
    Ok(MethodReply::now(&StatusReply::new(agent.layer.status(), &agent.limits)))
}

/// Returns the tool definitions, in the format the client requests.
pub(crate) fn tools(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let filter = ToolFilter { mode: params.optional("mode")?, category: params.optional("category")? };
    let format: ToolFormat = params.optional("format")?.unwrap_or_default();
    params.finish()?;
    let tools = agent.layer.tools_in(session.worker_session.as_deref(), &filter);
    Ok(MethodReply::Immediate(agent.tool_lists.reply(format, tools)))
}
