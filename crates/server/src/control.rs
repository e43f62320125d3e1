//! Method table of `control.sock`, the socket of the operator. Agents must not be given this socket, and none
//! of its methods exist on the agent socket.

mod approvals;
mod calls;
mod daemon;
mod ledger;
mod mode;
mod sessions;
mod undo;

use std::path::PathBuf;
use std::sync::Arc;

use execution::{PinError, ToolExecutionLayer};
use tokio_util::task::TaskTracker;

pub use undo::{rehearse_undo, undo};

use crate::agent;
use crate::reload::Reloader;
use crate::rpc::RpcError;
use crate::serve::Stop;
use crate::service::{Method, Service};
use crate::settings::Limits;
use crate::worker::Workers;

/// File name of the control socket.
pub(crate) const SOCKET: &str = "control.sock";

/// Shared context of the control methods.
pub(crate) struct Control {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) limits: Limits,
    pub(crate) sockets: [PathBuf; 2],
    pub(crate) connections: TaskTracker,
    pub(crate) workers: Arc<Workers>,
    pub(crate) stop: Stop,
}

const METHODS: &[Method<Control>] = &[
    Method { name: "control/approvals.list", run: approvals::list },
    Method { name: "control/approvals.show", run: approvals::show },
    Method { name: "control/approvals.decide", run: approvals::decide },
    Method { name: "control/approvals.watch", run: approvals::watch },
    Method { name: "control/grants.list", run: approvals::list_grants },
    Method { name: "control/grants.revoke", run: approvals::revoke_grant },
    Method { name: "control/pin.set", run: mode::set_pin },
    Method { name: "control/mode.get", run: mode::get },
    Method { name: "control/mode.set", run: mode::set },
    Method { name: "control/execute", run: calls::execute },
    Method { name: "control/explain", run: calls::explain },
    Method { name: "control/calls.list", run: calls::list },
    Method { name: "control/calls.cancel", run: calls::cancel },
    Method { name: "control/sessions.list", run: sessions::list },
    Method { name: "control/sessions.close", run: sessions::close },
    Method { name: "control/reload", run: daemon::reload },
    Method { name: "control/ledger.query", run: ledger::query },
    Method { name: "control/ledger.tail", run: ledger::tail },
    Method { name: "control/ledger.verify", run: ledger::verify },
    Method { name: "control/ledger.export", run: ledger::export },
    Method { name: "control/events", run: daemon::events },
    Method { name: "control/status", run: daemon::status },
    Method { name: "control/shutdown", run: daemon::shutdown },
    Method { name: "control/undo", run: undo::run },
];

/// Converts the error of a PIN that was not accepted.
fn pin_error(error: &PinError) -> RpcError {
    let word = match error {
        PinError::Missing => "pin_needed",
        PinError::Wrong => "pin_wrong",
        PinError::TooMany { .. } => "pin_locked",
        PinError::Length => "pin_length",
        PinError::File(_) => "pin_unusable",
    };
    RpcError::server(word, error.to_string())
}

/// Builds the service of the control socket.
pub(crate) fn service(context: Control) -> Service<Control> {
    Service {
        socket: SOCKET,
        methods: METHODS,
        notices: &[],
        elsewhere: (agent::SOCKET, agent::knows),
        worker: None,
        malformed: |_, _, error| error,
        // The operator is not limited.
        admit: |_, _, _| Ok(()),
        context,
    }
}

/// Returns true if this socket has the method.
pub(crate) fn knows(method: &str) -> bool {
    METHODS.iter().any(|known| known.name == method)
}
