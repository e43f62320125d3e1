//! The Model Context Protocol, for the eras that begin with a handshake. One file per method.
//!
//! MCP grows new parameters with every revision, so unknown ones are passed over here, unlike in Sinew's own
//! methods; only what begins with `sinew/` is ours, and strict.

pub(crate) mod call;
pub(crate) mod initialize;
pub(crate) mod list;
pub(crate) mod ping;

mod progress;
mod result;

use crate::rpc::{Id, Params, RpcError};
use crate::service::{Effect, Notice};
use crate::session::Session;

/// The revisions that are spoken, oldest first.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// What was agreed at the beginning of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// What the client calls itself, fit for display.
    pub(crate) client: Option<String>,
    /// The revision both will speak.
    pub(crate) revision: &'static str,
}

pub(crate) const NOTICES: &[Notice] = &[
    Notice { name: "notifications/initialized", run: |_| Effect::Nothing },
    Notice { name: "notifications/cancelled", run: cancelled },
];

/// The client takes a request back: a call that runs or waits is ended, and recorded as cancelled.
fn cancelled(mut params: Params) -> Effect {
    match params.take("requestId").map(Id::read) {
        Some(Ok(id)) => Effect::Withdraw(id),
        _ => Effect::Nothing,
    }
}

/// Refuses what may only follow the handshake.
fn after_handshake(session: &Session) -> Result<(), RpcError> {
    match &session.handshake {
        Some(_) => Ok(()),
        None => {
            let message = format!("send `initialize` first (protocol versions {})", REVISIONS.join(", "));
            Err(RpcError::invalid_request(&message).with("code", "not_initialized"))
        }
    }
}
