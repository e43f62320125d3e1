//! WebSocket transport, as in the official SDK until its second version: subprotocol `mcp`, one message per
//! text frame.
//!
//! A connection lives for one call, because an open socket is bound to the permit that opened it.

use std::time::Duration;

use outbound::{Caps, Gatekeeper, HttpRequest, Socket};
use serde_json::Value;

use super::client::LARGEST_RESULT;
use super::hearing::{Heard, Hearing};
use super::http::Leave;
use super::message::Awaited;
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

    /// Sends a request and waits for its response. Other messages are answered or ignored meanwhile.
    pub(crate) async fn ask(
        &mut self,
        awaited: Awaited,
        request: &Value,
        leave: Leave<'_>,
    ) -> Result<Value, McpError> {
        let most = u64::try_from(awaited.most).unwrap_or(u64::MAX);
        let longest = within(leave, most.saturating_add(BESIDES));
        let socket = self.socket(leave).await?;
        socket.await_at_most(longest);
        socket.send(request.to_string()).await?;
        let mut hearing = Hearing::new(awaited);
        loop {
            let text = socket.next().await?;
            let text = text.ok_or_else(|| McpError::Lost("the server closed the WebSocket".to_owned()))?;
            match hearing.take(text).await? {
                Heard::Answer(answer) => return Ok(answer),
                Heard::Asked(reply) => socket.send(reply.to_string()).await?,
                Heard::Nothing => {}
            }
        }
    }

    /// Sends a notification.
    pub(crate) async fn tell(&mut self, notice: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        Ok(self.socket(leave).await?.send(notice.to_string()).await?)
    }

    /// Closes the connection.
    pub(crate) async fn end(self) {
        if let Some(socket) = self.open {
            let _ = tokio::time::timeout(TIME_TO_PART, socket.close()).await;
        }
    }

    async fn socket(&mut self, leave: Leave<'_>) -> Result<&mut Socket, McpError> {
        let socket = match self.open.take() {
            Some(socket) => socket,
            None => {
                let caps = Caps { body_bytes: within(leave, LARGEST), deadline: leave.deadline };
                let credential = leave.credential.cloned();
                let question = HttpRequest { credential, ..HttpRequest::get(&self.url) };
                self.gatekeeper.open_socket(leave.permit, &question, PROTOCOL, caps).await?
            }
        };
        Ok(self.open.insert(socket))
    }
}

/// Limits a size to the response size that the policy permits.
fn within(leave: Leave<'_>, bytes: u64) -> u64 {
    leave.permit.max_response_bytes().unwrap_or(bytes).min(bytes)
}
