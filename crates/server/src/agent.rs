//! Method table of `agent.sock`: Sinew's own methods and MCP, which one connection can mix.

use std::sync::{Arc, Weak};

use execution::{RequestCost, Throttled, ToolExecutionLayer};
use tool::CallerEndpoint;
use tool::caller::CallerKey;

use crate::connection_state::ConnectionState;
use crate::mcp::task_table::TaskTable;
use crate::methods::rendered_tools::RenderedToolLists;
use crate::methods::{calls, host, sessions, status};
use crate::rpc::{RequestId, RpcError};
use crate::service::{RpcMethod, SocketService};
use crate::settings::ConnectionLimits;
use crate::worker_sockets::WorkerSockets;
use crate::{control, mcp};

/// File name of the agent socket.
pub(crate) const SOCKET_NAME: &str = "agent.sock";

/// Shared context of the agent methods.
pub(crate) struct AgentContext {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) tool_lists: RenderedToolLists,
    /// Worker sockets, which `sinew/session.open` creates. Empty on a worker socket.
    pub(crate) worker_sockets: Weak<WorkerSockets>,
    pub(crate) tasks: TaskTable,
}

impl AgentContext {
    /// Returns the worker sockets, or an error once the daemon is shutting down.
    pub(crate) fn worker_sockets(&self) -> Result<Arc<WorkerSockets>, RpcError> {
        self.worker_sockets
            .upgrade()
            .ok_or_else(|| RpcError::server("shutting_down", "Sinew is shutting down"))
    }
}

const METHODS: &[RpcMethod<AgentContext>] = &[
    RpcMethod { name: "sinew/execute", run: calls::execute },
    RpcMethod { name: "sinew/explain", run: calls::explain },
    RpcMethod { name: "sinew/judge_host", run: host::judge },
    RpcMethod { name: "sinew/review_host", run: host::review },
    RpcMethod { name: "sinew/tools", run: status::tools },
    RpcMethod { name: "sinew/status", run: status::status },
    RpcMethod { name: "sinew/session.open", run: sessions::open },
    RpcMethod { name: "sinew/session.turn", run: sessions::turn },
    RpcMethod { name: "sinew/session.spend", run: sessions::spend },
    RpcMethod { name: "sinew/session.close", run: sessions::close },
    RpcMethod { name: "initialize", run: mcp::initialize::initialize },
    RpcMethod { name: "server/discover", run: mcp::initialize::discover },
    RpcMethod { name: "subscriptions/listen", run: mcp::listen::run },
    RpcMethod { name: "ping", run: mcp::ping },
    RpcMethod { name: "tools/list", run: mcp::list::run },
    RpcMethod { name: "tools/call", run: mcp::call::run },
    RpcMethod { name: "tasks/get", run: mcp::tasks::get },
    RpcMethod { name: "tasks/result", run: mcp::tasks::result },
    RpcMethod { name: "tasks/list", run: mcp::tasks::list },
    RpcMethod { name: "tasks/update", run: mcp::tasks::update },
    RpcMethod { name: "tasks/cancel", run: mcp::tasks::cancel },
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
        | "tasks/get"
        | "tasks/result"
        | "tasks/list"
        | "tasks/update"
        | "tasks/cancel"
        | "tools/list" => RequestCost::Light,
        _ => RequestCost::Call,
    }
}

/// Admits a request of an agent or a worker, or refuses it because its caller is over a limit.
pub(crate) fn admit(
    agent: &AgentContext,
    session: &ConnectionState,
    method: &'static str,
) -> Result<(), RpcError> {
    let caller = || session.caller(CallerEndpoint::Socket);
    agent.layer.admit_request(session.account, cost_of(method), method, caller).map_err(|throttled| {
        let message = format!("too many requests of `{method}`: wait {} ms", throttled.retry_after_ms);
        rate_limited(message, throttled)
    })
}

/// Charges the bytes of a reply or notification to its caller.
pub(crate) fn charge_line(agent: &AgentContext, account: CallerKey, bytes: usize) {
    agent.layer.charge_reply(account, bytes);
}

/// Error of a request over a limit.
pub(crate) fn rate_limited(message: String, throttled: Throttled) -> RpcError {
    RpcError::server("rate_limited", message).with_data("retry_after_ms", throttled.retry_after_ms)
}

/// Records a refusal for an invalid message whose sender waits for a reply, and adds it to the error.
fn record_malformed(
    agent: &AgentContext,
    session: &ConnectionState,
    id: Option<&RequestId>,
    error: RpcError,
) -> RpcError {
    if id.is_none() {
        return error;
    }
    let caller = session.caller(CallerEndpoint::Socket);
    let result = agent.layer.refuse_malformed(caller, error.refusal_code(), &error.message);
    error.with_data("refusal", &result.metadata.refusal)
}

/// Builds the service of the agent socket.
pub(crate) fn service(context: AgentContext) -> SocketService<AgentContext> {
    SocketService {
        socket: SOCKET_NAME,
        methods: METHODS,
        notifications: mcp::NOTIFICATIONS,
        other_socket: (control::SOCKET_NAME, control::has_method),
        worker: None,
        on_malformed: record_malformed,
        admit,
        charge_line,
        before_write: |agent| agent.layer.anchor_records(),
        request_slots: Some(context.layer.request_slots().clone()),
        context,
    }
}

/// Returns true if this socket has the method.
pub(crate) fn has_method(method: &str) -> bool {
    METHODS.iter().any(|known| known.name == method)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_method_is_described() {
        crate::tests::assert_described(super::SOCKET_NAME, super::METHODS);
    }
}
