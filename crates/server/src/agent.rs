//! Method table of `agent.sock`: Sinew's own methods and MCP, which one connection can mix.

use std::sync::{Arc, Weak};

use execution::{CallerKey, RequestCost, Throttled, ToolExecutionLayer};
use tool::Door;

use crate::rpc::RpcError;
use crate::service::{Method, Service};
use crate::session::Session;
use crate::settings::Limits;
use crate::worker::Workers;
use crate::{control, mcp, methods};

/// File name of the agent socket.
pub(crate) const SOCKET: &str = "agent.sock";

/// Shared context of the agent methods.
pub(crate) struct Agent {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) limits: Limits,
    /// Worker sockets, which `sinew/session.open` creates. Empty on a worker socket.
    pub(crate) workers: Weak<Workers>,
}

impl Agent {
    /// Returns the worker sockets, or an error once the daemon is shutting down.
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

/// Cost of a request to a method. One that is not listed costs as much as a call.
fn cost_of(method: &str) -> RequestCost {
    const LIGHT: [&str; 10] = [
        methods::tools::METHOD.name,
        methods::status::METHOD.name,
        methods::session_turn::METHOD.name,
        methods::session_spend::METHOD.name,
        methods::session_close::METHOD.name,
        mcp::initialize::METHOD.name,
        mcp::discover::METHOD.name,
        mcp::listen::METHOD.name,
        mcp::ping::METHOD.name,
        mcp::list::METHOD.name,
    ];
    if method == methods::session_open::METHOD.name {
        return RequestCost::SessionOpen;
    }
    if LIGHT.contains(&method) { RequestCost::Light } else { RequestCost::Call }
}

/// Admits a request of an agent or a worker, or refuses it because its caller is over a limit.
pub(crate) fn admit(agent: &Agent, session: &Session, method: &'static str) -> Result<(), RpcError> {
    let key = CallerKey::new(session.worker.as_deref(), session.peer.pid, session.peer.uid);
    let caller = || session.caller(Door::Socket);
    agent.layer.admit_request(key, cost_of(method), method, caller).map_err(|throttled| {
        let message = format!("too many requests of `{method}`: wait {} ms", throttled.retry_after_ms);
        rate_limited(message, throttled)
    })
}

/// Error of a request over a limit.
pub(crate) fn rate_limited(message: String, throttled: Throttled) -> RpcError {
    RpcError::server("rate_limited", message).with("retry_after_ms", throttled.retry_after_ms)
}

/// Builds the service of the agent socket.
pub(crate) fn service(context: Agent) -> Service<Agent> {
    Service {
        socket: SOCKET,
        methods: METHODS,
        notices: mcp::NOTICES,
        elsewhere: (control::SOCKET, control::knows),
        worker: None,
        malformed: |_, _, error| error,
        admit,
        context,
    }
}

/// Returns true if this socket has the method.
pub(crate) fn knows(method: &str) -> bool {
    METHODS.iter().any(|known| known.name == method)
}
