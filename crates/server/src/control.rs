//! Method table of `control.sock`, the socket of the operator. Agents must not be given this socket, and none
//! of its methods exist on the agent socket.

mod approvals_decide;
mod approvals_list;
mod approvals_show;
mod approvals_watch;
mod calls_cancel;
mod calls_list;
mod events;
mod execute;
mod explain;
mod grants_list;
mod grants_revoke;
mod ledger_export;
mod ledger_filter;
mod ledger_query;
mod ledger_tail;
mod ledger_verify;
mod mode_get;
mod mode_set;
mod pin_set;
mod reload;
mod sessions_close;
mod sessions_list;
mod shutdown;
mod status;
mod undo;

use std::path::PathBuf;
use std::sync::Arc;

use execution::{LedgerError, PinError, ToolExecutionLayer};
use serde_json::Value;
use tokio_util::task::TaskTracker;

pub use undo::{rehearse_undo, undo};

use crate::agent;
use crate::reload::Reloader;
use crate::rpc::{self, RpcError};
use crate::serve::Stop;
use crate::service::{Answer, Method, Service};
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
    approvals_list::METHOD,
    approvals_show::METHOD,
    approvals_decide::METHOD,
    approvals_watch::METHOD,
    grants_list::METHOD,
    grants_revoke::METHOD,
    pin_set::METHOD,
    mode_get::METHOD,
    mode_set::METHOD,
    execute::METHOD,
    explain::METHOD,
    calls_list::METHOD,
    calls_cancel::METHOD,
    sessions_list::METHOD,
    sessions_close::METHOD,
    reload::METHOD,
    ledger_query::METHOD,
    ledger_tail::METHOD,
    ledger_verify::METHOD,
    ledger_export::METHOD,
    events::METHOD,
    status::METHOD,
    shutdown::METHOD,
    undo::METHOD,
];

/// Runs a ledger query on the blocking pool, because it reads files and must not stall other connections.
fn reading(work: impl FnOnce() -> Result<Value, LedgerError> + Send + 'static) -> Answer {
    Answer::later(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(reply)) => rpc::answer(&reply),
            Ok(Err(error)) => Err(RpcError::server("ledger_unavailable", error.to_string())),
            Err(_) => Err(RpcError::internal()),
        }
    })
}

/// Returns the error code for a PIN that was not accepted.
fn pin_word(error: &PinError) -> &'static str {
    match error {
        PinError::Missing => "pin_needed",
        PinError::Wrong => "pin_wrong",
        PinError::TooMany { .. } => "pin_locked",
        PinError::Length => "pin_length",
        PinError::File(_) => "pin_unusable",
    }
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
