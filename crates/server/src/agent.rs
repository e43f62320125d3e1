//! What `agent.sock` offers: Sinew's own methods and MCP, side by side on one connection.

use std::sync::Arc;

use execution::ToolExecutionLayer;

use crate::service::{Method, Service};
use crate::settings::Limits;
use crate::{control, mcp, methods};

/// The socket's name.
pub(crate) const SOCKET: &str = "agent.sock";

/// What the agent's methods work on.
pub(crate) struct Agent {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) limits: Limits,
}

const METHODS: &[Method<Agent>] = &[
    methods::execute::METHOD,
    methods::explain::METHOD,
    methods::judge_host::METHOD,
    methods::review_host::METHOD,
    methods::tools::METHOD,
    methods::status::METHOD,
    mcp::initialize::METHOD,
    mcp::discover::METHOD,
    mcp::listen::METHOD,
    mcp::ping::METHOD,
    mcp::list::METHOD,
    mcp::call::METHOD,
];

/// The agent's side of the daemon.
pub(crate) fn service(context: Agent) -> Service<Agent> {
    Service {
        socket: SOCKET,
        methods: METHODS,
        notices: mcp::NOTICES,
        elsewhere: (control::SOCKET, control::knows),
        context,
    }
}

/// Whether this socket has the method.
pub(crate) fn knows(method: &str) -> bool {
    METHODS.iter().any(|known| known.name == method)
}
