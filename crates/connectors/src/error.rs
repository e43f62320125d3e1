//! Errors of the connection to an MCP server.

use outbound::OutboundError;
use registry::RecordedPermit;
use sandbox::SandboxError;
use tool::{Category, Failure, FailureKind};

use crate::mcp::MaskSecrets;

/// Reason why a server gave no usable response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpError {
    /// The server exited, closed its output or violated the message framing.
    #[error("the connection to the server was lost: {0}")]
    ConnectionLost(String),
    /// A message exceeds the size limit.
    #[error("the server sent a message of more than {0} bytes")]
    MessageTooLong(usize),
    /// A message has more values than the limit.
    #[error("the server sent a message of more than {0} values")]
    TooManyValues(usize),
    /// The server sent messages without end instead of a response.
    #[error("the server sent {0} and no response")]
    EndlessMessages(&'static str),
    /// The server returned a JSON-RPC error.
    #[error("the server returned an error: {message} ({code})")]
    RpcError {
        /// JSON-RPC error code.
        code: i64,
        /// Error message of the server.
        message: String,
    },
    /// The response violates the protocol.
    #[error("the server's response violates the protocol: {0}")]
    ProtocolViolation(String),
    /// The server returned an HTTP status that is not a success.
    #[error("the server returned HTTP status {0}")]
    HttpStatus(u16),
    /// The health check of the manifest failed.
    #[error("the server failed its health check: {0}")]
    Unhealthy(String),
    /// The sandbox or the program is not available.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The outbound request was refused or failed.
    #[error(transparent)]
    Outbound(Box<OutboundError>),
}

impl From<OutboundError> for McpError {
    fn from(error: OutboundError) -> Self {
        McpError::Outbound(Box::new(error))
    }
}

impl McpError {
    /// Removes secrets from text that comes from the server.
    pub(crate) fn masked(self, secrets: &impl MaskSecrets) -> McpError {
        let text = |server_text: String| secrets.mask_secrets(&server_text).unwrap_or(server_text);
        match self {
            McpError::ConnectionLost(server_text) => McpError::ConnectionLost(text(server_text)),
            McpError::RpcError { code, message } => McpError::RpcError { code, message: text(message) },
            McpError::ProtocolViolation(server_text) => McpError::ProtocolViolation(text(server_text)),
            other => other,
        }
    }

    /// Returns true if the connection cannot be used again.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, McpError::RpcError { .. })
    }

    /// Returns true if the request may have taken effect: it was sent, or that cannot be excluded.
    pub(crate) fn may_have_happened(&self) -> bool {
        match self {
            McpError::RpcError { .. } | McpError::Sandbox(_) | McpError::Unhealthy(_) => false,
            McpError::Outbound(error) => matches!(
                **error,
                OutboundError::InvalidResponse { .. }
                    | OutboundError::InvalidFrame { .. }
                    | OutboundError::TooManyBytes { .. }
                    | OutboundError::TimedOut { .. }
                    | OutboundError::TooManyRedirects { .. }
                    | OutboundError::BadRedirect { .. }
            ),
            McpError::ConnectionLost(_)
            | McpError::MessageTooLong(_)
            | McpError::TooManyValues(_)
            | McpError::EndlessMessages(_)
            | McpError::ProtocolViolation(_)
            | McpError::HttpStatus(_) => true,
        }
    }

    /// Converts the error into a tool failure. `stderr_tail` is the end of the server's standard error.
    pub(crate) fn into_failure(self, stderr_tail: &str) -> Failure {
        let hint = match stderr_tail.trim() {
            "" => "run the server command of the manifest by hand to see the problem".to_owned(),
            stderr_tail => format!("its last output: {stderr_tail}"),
        };
        let failed = |kind, error: &McpError| Failure::new(kind, error.to_string());
        match self {
            McpError::Outbound(error) => (*error).into(),
            McpError::RpcError { .. } => {
                failed(FailureKind::Crashed, &self).with_hint("the message comes from the server")
            }
            McpError::Sandbox(error) => error.into(),
            McpError::MessageTooLong(_) | McpError::TooManyValues(_) => {
                failed(FailureKind::TooLarge, &self).with_hint("request less data")
            }
            McpError::HttpStatus(401 | 403) => failed(FailureKind::Unreadable, &self).with_hint(
                "the server needs a valid key: its manifest names the key; `sinew doctor` shows its state",
            ),
            McpError::ConnectionLost(_) | McpError::HttpStatus(429 | 500..) | McpError::Unhealthy(_) => {
                failed(FailureKind::Transient, &self).with_hint(hint)
            }
            McpError::HttpStatus(_) | McpError::EndlessMessages(_) | McpError::ProtocolViolation(_) => {
                failed(FailureKind::Crashed, &self).with_hint(hint)
            }
        }
    }
}

/// Reason why a call to a server gave no result. Before the call was sent, nothing can have happened;
/// afterwards, its effect is unknown.
pub(crate) enum CallAbort {
    /// The server is not the accepted one.
    Rejected(Failure),
    /// The connection failed before the call was sent.
    BeforeCall(McpError),
    /// The connection failed after the call was sent.
    AfterCall(McpError),
    /// The deadline passed.
    TimedOut,
}

impl CallAbort {
    /// Returns true if the connection cannot be used again.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            CallAbort::BeforeCall(error) | CallAbort::AfterCall(error) => error.is_final(),
            CallAbort::TimedOut => true,
            CallAbort::Rejected(_) => false,
        }
    }

    /// Returns true if the connection to the server was lost.
    pub(crate) fn is_connection_lost(&self) -> bool {
        matches!(
            self,
            CallAbort::BeforeCall(McpError::ConnectionLost(_))
                | CallAbort::AfterCall(McpError::ConnectionLost(_))
        )
    }

    /// Converts the reason into a tool failure. `stderr_tail` is the end of the server's standard error.
    pub(crate) fn into_failure(self, stderr_tail: &str, recorded_permit: &RecordedPermit) -> Failure {
        match self {
            CallAbort::Rejected(failure) => failure,
            CallAbort::BeforeCall(error) => error.into_failure(stderr_tail),
            CallAbort::AfterCall(error)
                if error.may_have_happened() && is_recorded_as_change(recorded_permit) =>
            {
                let message = format!("{error}; the call may have taken effect");
                let hint = match stderr_tail.trim() {
                    "" => "check its effect first; Sinew does not retry".to_owned(),
                    stderr_tail => {
                        format!("check its effect first; Sinew does not retry; last output: {stderr_tail}")
                    }
                };
                Failure::new(FailureKind::Interrupted, message).with_hint(hint)
            }
            CallAbort::AfterCall(error) => error.into_failure(stderr_tail),
            CallAbort::TimedOut => CallAbort::timeout_failure(),
        }
    }

    pub(crate) fn timeout_failure() -> Failure {
        Failure::new(FailureKind::TimedOut, "the server did not respond in time and was stopped")
            .with_hint("the call may have taken effect: check first")
    }
}

/// Returns true if the call is recorded in the ledger as a change.
fn is_recorded_as_change(recorded_permit: &RecordedPermit) -> bool {
    let category = recorded_permit.value().call().definition().category();
    ![Category::READ_ONLY, Category::SELF_CHECK].contains(category)
}
