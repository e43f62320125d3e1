//! What `agent.sock` offers: Sinew's own methods and MCP, side by side on one connection.

use std::sync::{Arc, Weak};

use execution::ToolExecutionLayer;

use crate::rpc::RpcError;
use crate::service::{Method, Service};
use crate::settings::Limits;
use crate::worker::Workers;
use crate::{control, mcp, methods};

/// The socket's name.
pub(crate) const SOCKET: &str = "agent.sock";

/// What the agent's methods work on.
pub(crate) struct Agent {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) limits: Limits,
    /// The doors it may open for workers.
    pub(crate) workers: Weak<Workers>,
}

impl Agent {
    /// The doors of workers, while the daemon serves.
    pub(crate) fn workers(&self) -> Result<Arc<Workers>, RpcError> {
        self.workers.upgrade().ok_or_else(|| RpcError::server("shutting_down", "Sinew is shutting down"))
    }
}

const METHODS: &[Method<Agent>] = &[
    methods::execute::METHOD,
    methods::explain::METHOD,
    methods::judge_host::METHOD,
    methods::review_host::METHOD,
    methods::tools::METHOD,
    methods::status::METHOD,
    methods::session_open::METHOD,
    methods::session_turn::METHOD,
    methods::session_spend::METHOD,
    methods::session_close::METHOD,
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
        worker: None,
        malformed: |_, _, error| error,
        context,
    }
}

/// Whether this socket has the method.
pub(crate) fn knows(method: &str) -> bool {
    METHODS.iter().any(|known| known.name == method)
}
