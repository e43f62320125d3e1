//! What `control.sock` offers: the human's side. No agent gets this socket, and none of this is on the other one.

mod calls_cancel;
mod calls_list;
mod events;
mod ledger_export;
mod ledger_filter;
mod ledger_query;
mod ledger_tail;
mod ledger_verify;
mod mode_get;
mod mode_set;
mod reload;
mod shutdown;
mod status;

use std::path::PathBuf;
use std::sync::Arc;

use execution::{LedgerError, ToolExecutionLayer};
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::agent;
use crate::reload::Reloader;
use crate::rpc::{self, RpcError};
use crate::serve::Stop;
use crate::service::{Answer, Method, Service};
use crate::settings::Limits;

/// The socket's name.
pub(crate) const SOCKET: &str = "control.sock";

/// What the human's methods work on.
pub(crate) struct Control {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) limits: Limits,
    pub(crate) sockets: [PathBuf; 2],
    pub(crate) connections: TaskTracker,
    pub(crate) stop: Stop,
}

const METHODS: &[Method<Control>] = &[
    mode_get::METHOD,
    mode_set::METHOD,
    calls_list::METHOD,
    calls_cancel::METHOD,
    reload::METHOD,
    ledger_query::METHOD,
    ledger_tail::METHOD,
    ledger_verify::METHOD,
    ledger_export::METHOD,
    events::METHOD,
    status::METHOD,
    shutdown::METHOD,
];

/// Reading the ledger is reading files: not on a thread that serves connections.
fn reading(work: impl FnOnce() -> Result<Value, LedgerError> + Send + 'static) -> Answer {
    Answer::later(async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(told)) => rpc::answer(&told),
            Ok(Err(error)) => Err(RpcError::server("ledger_unavailable", error.to_string())),
            Err(_) => Err(RpcError::internal()),
        }
    })
}

/// The human's side of the daemon.
pub(crate) fn service(context: Control) -> Service<Control> {
    Service {
        socket: SOCKET,
        methods: METHODS,
        notices: &[],
        elsewhere: (agent::SOCKET, agent::knows),
        worker: None,
        malformed: |_, _, error| error,
        context,
    }
}

/// Whether this socket has the method.
pub(crate) fn knows(method: &str) -> bool {
    METHODS.iter().any(|known| known.name == method)
}
