//! Method table of `control.sock`, the socket of the operator. Agents must not be given this socket, and none
//! of its methods exist on the agent socket.

mod approvals;
mod callers;
mod calls;
mod daemon;
mod ledger;
mod mode;
mod recording;
mod sessions;
mod undo;

use std::path::PathBuf;
use std::sync::Arc;

use ::approvals::PinError;
use execution::ToolExecutionLayer;
use tokio_util::task::TaskTracker;

pub use undo::{preview_undo, undo};

use crate::agent;
use crate::connected_clients::ConnectedClients;
use crate::hand_over::StopHandle;
use crate::reload::ConfigReloader;
use crate::rpc::RpcError;
use crate::service::{RpcMethod, SocketService};
use crate::settings::ConnectionLimits;
use crate::worker_sockets::WorkerSockets;

/// File name of the control socket.
pub(crate) const SOCKET_NAME: &str = "control.sock";

/// Shared context of the control methods.
pub(crate) struct ControlContext {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) reloader: Arc<ConfigReloader>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) sockets: [PathBuf; 2],
    pub(crate) connections: TaskTracker,
    pub(crate) clients: ConnectedClients,
    pub(crate) worker_sockets: Arc<WorkerSockets>,
    pub(crate) stop: StopHandle,
}

const METHODS: &[RpcMethod<ControlContext>] = &[
    RpcMethod { name: "control/approvals.list", run: approvals::list },
    RpcMethod { name: "control/approvals.show", run: approvals::show },
    RpcMethod { name: "control/approvals.decide", run: approvals::decide },
    RpcMethod { name: "control/approvals.watch", run: approvals::watch },
    RpcMethod { name: "control/grants.list", run: approvals::list_grants },
    RpcMethod { name: "control/grants.revoke", run: approvals::revoke_grant },
    RpcMethod { name: "control/pin.set", run: mode::set_pin },
    RpcMethod { name: "control/mode.get", run: mode::get },
    RpcMethod { name: "control/mode.set", run: mode::set },
    RpcMethod { name: "control/recording.start", run: recording::start },
    RpcMethod { name: "control/recording.stop", run: recording::stop },
    RpcMethod { name: "control/execute", run: calls::execute },
    RpcMethod { name: "control/explain", run: calls::explain },
    RpcMethod { name: "control/calls.list", run: calls::list },
    RpcMethod { name: "control/calls.cancel", run: calls::cancel },
    RpcMethod { name: "control/callers.list", run: callers::list },
    RpcMethod { name: "control/callers.resume", run: callers::resume },
    RpcMethod { name: "control/sessions.list", run: sessions::list },
    RpcMethod { name: "control/sessions.close", run: sessions::close },
    RpcMethod { name: "control/reload", run: daemon::reload },
    RpcMethod { name: "control/ledger.query", run: ledger::query },
    RpcMethod { name: "control/ledger.tail", run: ledger::tail },
    RpcMethod { name: "control/ledger.verify", run: ledger::verify },
    RpcMethod { name: "control/ledger.export", run: ledger::export },
    RpcMethod { name: "control/events", run: daemon::events },
    RpcMethod { name: "control/status", run: daemon::status },
    RpcMethod { name: "control/shutdown", run: daemon::shutdown },
    RpcMethod { name: "control/restart", run: daemon::restart },
    RpcMethod { name: "control/undo", run: undo::run },
];

/// Converts the error of a PIN that was not accepted.
fn pin_error(error: &PinError) -> RpcError {
    let word = match error {
        PinError::Missing => "pin_needed",
        PinError::Wrong => "pin_wrong",
        PinError::TooManyAttempts { .. } => "pin_locked",
        PinError::InvalidLength => "pin_length",
        PinError::File(_) => "pin_unusable",
    };
    RpcError::server(word, error.to_string())
}

/// Builds the service of the control socket.
pub(crate) fn service(context: ControlContext) -> SocketService<ControlContext> {
    SocketService {
        socket: SOCKET_NAME,
        methods: METHODS,
        notifications: &[],
        other_socket: (agent::SOCKET_NAME, agent::has_method),
        worker: None,
        on_malformed: |_, _, _, error| error,
        // The operator is not limited.
        admit: |_, _, _| Ok(()),
        charge_line: |_, _, _| {},
        before_write: |control| control.layer.anchor_records(),
        request_slots: None,
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
