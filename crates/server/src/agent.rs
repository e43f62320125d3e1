//! Method table of `agent.sock`: Sinew's own methods and MCP, which one connection can mix.

use std::sync::{Arc, Weak};

use execution::{CallerKey, RequestCost, Throttled, ToolExecutionLayer};
use tool::Door;

use crate::methods::{calls, host, sessions, status};
use crate::rpc::RpcError;
use crate::service::{Method, Service};
use crate::session::Session;
use crate::settings::Limits;
use crate::worker::Workers;
use crate::{control, mcp};

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
    Method { name: "sinew/execute", run: calls::execute },
    Method { name: "sinew/explain", run: calls::explain },
    Method { name: "sinew/judge_host", run: host::judge },
    Method { name: "sinew/review_host", run: host::review },
    Method { name: "sinew/tools", run: status::tools },
    Method { name: "sinew/status", run: status::status },
    Method { name: "sinew/session.open", run: sessions::open },
    Method { name: "sinew/session.turn", run: sessions::turn },
    Method { name: "sinew/session.spend", run: sessions::spend },
    Method { name: "sinew/session.close", run: sessions::close },
    Method { name: "initialize", run: mcp::initialize::initialize },
    Method { name: "server/discover", run: mcp::initialize::discover },
    Method { name: "subscriptions/listen", run: mcp::listen::run },
    Method { name: "ping", run: mcp::ping },
    Method { name: "tools/list", run: mcp::list::run },
    Method { name: "tools/call", run: mcp::call::run },
];

/// Cost of a request to a method. One that is not listed costs as much as a call.
fn cost_of(method: &str) -> RequestCost {
    match method {
        "sinew/session.open" => RequestCost::SessionOpen,
        "sinew/tools"
        | "sinew/status"
        | "sinew/session.turn"
        | "sinew/session.spend"
        | "sinew/session.close"
        | "initialize"
        | "server/discover"
        | "subscriptions/listen"
        | "ping"
        | "tools/list" => RequestCost::Light,
        _ => RequestCost::Call,
    }
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
