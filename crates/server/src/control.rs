//! What `control.sock` offers: the human's side. No agent gets this socket, and none of this is on the other one.

mod ledger_tail;
mod mode_get;
mod mode_set;
mod shutdown;
mod status;

use std::path::PathBuf;
use std::sync::Arc;

use execution::ToolExecutionLayer;
use tokio_util::task::TaskTracker;

use crate::agent;
use crate::serve::Stop;
use crate::service::{Method, Service};
use crate::settings::Limits;

/// The socket's name.
pub(crate) const SOCKET: &str = "control.sock";

/// What the human's methods work on.
pub(crate) struct Control {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) limits: Limits,
    pub(crate) sockets: [PathBuf; 2],
    pub(crate) connections: TaskTracker,
    pub(crate) stop: Stop,
}

const METHODS: &[Method<Control>] =
    &[mode_get::METHOD, mode_set::METHOD, ledger_tail::METHOD, status::METHOD, shutdown::METHOD];

/// The human's side of the daemon.
pub(crate) fn service(context: Control) -> Service<Control> {
    Service {
        socket: SOCKET,
        methods: METHODS,
        notices: &[],
        elsewhere: (agent::SOCKET, agent::knows),
        context,
    }
}

/// Whether this socket has the method.
pub(crate) fn knows(method: &str) -> bool {
    METHODS.iter().any(|known| known.name == method)
}
