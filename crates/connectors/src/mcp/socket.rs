//! WebSocket transport, as in the official SDK until its second version: subprotocol `mcp`, one message per
//! text frame.
//!
//! A connection lives for one call, because an open socket is bound to the permit that opened it.

use std::time::Duration;

use outbound::{Caps, Gatekeeper, HttpRequest, Socket};
use serde_json::Value;

use super::client::LARGEST_RESULT;
use super::hearing::MessageStream;
use super::http::Leave;
use crate::error::McpError;

/// WebSocket subprotocol.
const PROTOCOL: &str = "mcp";
/// Allowance for other messages besides the result, in bytes.
const BESIDES: u64 = 1 << 20;
/// Size limit of any message.
const LARGEST: u64 = LARGEST_RESULT + BESIDES;
/// Timeout of the closing handshake.
const TIME_TO_PART: Duration = Duration::from_secs(1);

/// WebSocket endpoint, with the socket once it is open.
pub(crate) struct WebSocket {
    gatekeeper: Gatekeeper,
    url: String,
    open: Option<Socket>,
}

impl WebSocket {
    pub(crate) fn new(gatekeeper: &Gatekeeper, url: &str) -> WebSocket {
        WebSocket { gatekeeper: gatekeeper.clone(), url: url.to_owned(), open: None }
    }

    /// Closes the connection.
    pub(crate) async fn end(self) {
        if let Some(socket) = self.open {
            let _ = tokio::time::timeout(TIME_TO_PART, socket.close()).await;
        }
    }

    fn socket(&mut self) -> Result<&mut Socket, McpError> {
        self.open.as_mut().ok_or_else(|| McpError::Lost("the WebSocket is not open".to_owned()))
    }
}

impl MessageStream for WebSocket {
    async fn begin(&mut self, most: usize, leave: Leave<'_>) -> Result<(), McpError> {
        let mut socket = match self.open.take() {
            Some(socket) => socket,
            None => {
                let caps = Caps { body_bytes: within(leave, LARGEST), deadline: leave.deadline };
                let credential = leave.credential.cloned();
                let question = HttpRequest { credential, ..HttpRequest::get(&self.url) };
                self.gatekeeper.open_socket(leave.permit, &question, PROTOCOL, caps).await?
            }
        };
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        socket.await_at_most(within(leave, most.saturating_add(BESIDES)));
        self.open = Some(socket);
        Ok(())
    }

    async fn send(&mut self, message: &Value, _leave: Leave<'_>) -> Result<(), McpError> {
        Ok(self.socket()?.send(message.to_string()).await?)
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, McpError> {
        match self.socket()?.next().await? {
            Some(text) => Ok(Some(text)),
            None => Err(McpError::Lost("the server closed the WebSocket".to_owned())),
        }
    }
}

/// Limits a size to the response size that the policy permits.
fn within(leave: Leave<'_>, bytes: u64) -> u64 {
    leave.permit.max_response_bytes().unwrap_or(bytes).min(bytes)
}
