//! WebSocket transport, as in the official SDK until its second version: subprotocol `mcp`, one message per
//! text frame.
//!
//! A connection lives for one call, because an open socket is bound to the permit that opened it.

use std::time::Duration;

use outbound::{HttpGateway, HttpRequest, ResponseLimits, WebSocketConnection};
use serde_json::Value;

use super::client::MAX_RESULT_BYTES;
use super::http::McpRequestContext;
use super::response_wait::MessageStream;
use crate::error::McpError;

/// WebSocket subprotocol.
const SUBPROTOCOL: &str = "mcp";
/// Allowance for other messages besides the result, in bytes.
const EXTRA_MESSAGE_BYTES: u64 = 1 << 20;
/// Size limit of any message.
const MAX_MESSAGE_BYTES: u64 = MAX_RESULT_BYTES + EXTRA_MESSAGE_BYTES;
/// Timeout of the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// WebSocket endpoint, with the socket once it is open.
pub(crate) struct WebSocketTransport {
    gateway: HttpGateway,
    url: String,
    open: Option<WebSocketConnection>,
}

impl WebSocketTransport {
    pub(crate) fn new(gateway: &HttpGateway, url: &str) -> WebSocketTransport {
        WebSocketTransport { gateway: gateway.clone(), url: url.to_owned(), open: None }
    }

    /// Closes the connection.
    pub(crate) async fn close(self) {
        if let Some(socket) = self.open {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, socket.close()).await;
        }
    }

    fn socket(&mut self) -> Result<&mut WebSocketConnection, McpError> {
        self.open.as_mut().ok_or_else(|| McpError::ConnectionLost("the WebSocket is not open".to_owned()))
    }
}

impl MessageStream for WebSocketTransport {
    async fn begin(&mut self, max: usize, context: McpRequestContext<'_>) -> Result<(), McpError> {
        let mut socket = match self.open.take() {
            Some(socket) => socket,
            None => {
                let caps = ResponseLimits {
                    body_bytes: limit_to_policy(context, MAX_MESSAGE_BYTES),
                    deadline: context.deadline,
                };
                let credential = context.credential.cloned();
                let request = HttpRequest { credential, ..HttpRequest::get(&self.url) };
                self.gateway.open_websocket(context.permit, &request, SUBPROTOCOL, caps).await?
            }
        };
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        socket.set_receive_limit(limit_to_policy(context, max.saturating_add(EXTRA_MESSAGE_BYTES)));
        self.open = Some(socket);
        Ok(())
    }

    async fn send(&mut self, message: &Value, _leave: McpRequestContext<'_>) -> Result<(), McpError> {
        Ok(self.socket()?.send(message.to_string()).await?)
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, McpError> {
        match self.socket()?.next().await? {
            Some(text) => Ok(Some(text)),
            None => Err(McpError::ConnectionLost("the server closed the WebSocket".to_owned())),
        }
    }
}

/// Limits a size to the response size that the policy permits.
fn limit_to_policy(context: McpRequestContext<'_>, bytes: u64) -> u64 {
    context.permit.max_response_bytes().unwrap_or(bytes).min(bytes)
}
