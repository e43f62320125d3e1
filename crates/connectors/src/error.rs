//! Errors of the connection to an MCP server.

use outbound::{Credential, OutboundError};
use registry::Order;
use sandbox::SandboxError;
use tool::{Category, Failure, FailureKind};

/// Reason why a server gave no usable response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpError {
    /// The server exited, closed its output or violated the message framing.
    #[error("the connection to the server was lost: {0}")]
    Lost(String),
    /// A message exceeds the size limit.
    #[error("the server sent a message of more than {0} bytes")]
    TooLong(usize),
    /// A message has more values than the limit.
    #[error("the server sent a message of more than {0} values")]
    TooMany(usize),
    /// The server sent messages without end instead of a response.
    #[error("the server sent {0} and no response")]
    Endless(&'static str),
    /// The server returned a JSON-RPC error.
    #[error("the server returned an error: {message} ({code})")]
    Refused {
        /// JSON-RPC error code.
        code: i64,
        /// Error message of the server.
        message: String,
    },
    /// The response violates the protocol.
    #[error("the server's response violates the protocol: {0}")]
    Garbled(String),
    /// The server returned an HTTP status that is not a success.
    #[error("the server returned HTTP status {0}")]
    Status(u16),
    /// The health check of the manifest failed.
    #[error("the server failed its health check: {0}")]
    Unwell(String),
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
    /// Removes a key from text that comes from the server.
    pub(crate) fn masked(self, credential: &Credential) -> McpError {
        let text = |said: String| credential.masked(&said).unwrap_or(said);
        match self {
            McpError::Lost(said) => McpError::Lost(text(said)),
            McpError::Refused { code, message } => McpError::Refused { code, message: text(message) },
            McpError::Garbled(said) => McpError::Garbled(text(said)),
            other => other,
        }
    }

    /// Returns true if the connection cannot be used again.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, McpError::Refused { .. })
    }

    /// Returns true if the request may have taken effect: it was sent, or that cannot be excluded.
    pub(crate) fn may_have_happened(&self) -> bool {
        match self {
            McpError::Refused { .. } | McpError::Sandbox(_) | McpError::Unwell(_) => false,
            McpError::Outbound(error) => matches!(
                **error,
                OutboundError::Garbled { .. }
                    | OutboundError::BadFrame { .. }
                    | OutboundError::TooMuch { .. }
                    | OutboundError::TimedOut { .. }
                    | OutboundError::TooManyRedirects { .. }
                    | OutboundError::BadRedirect { .. }
            ),
            McpError::Lost(_)
            | McpError::TooLong(_)
            | McpError::TooMany(_)
            | McpError::Endless(_)
            | McpError::Garbled(_)
            | McpError::Status(_) => true,
        }
    }

    /// Converts the error into a tool failure. `said` is the end of the server's standard error.
    pub(crate) fn into_failure(self, said: &str) -> Failure {
        let hint = match said.trim() {
            "" => "run the server command of the manifest by hand to see the problem".to_owned(),
            said => format!("its last output: {said}"),
        };
        let failed = |kind, error: &McpError| Failure::new(kind, error.to_string());
        match self {
            McpError::Outbound(error) => (*error).into(),
            McpError::Refused { .. } => {
                failed(FailureKind::Crashed, &self).hint("the message comes from the server")
            }
            McpError::Sandbox(error) => error.into(),
            McpError::TooLong(_) | McpError::TooMany(_) => {
                failed(FailureKind::TooLarge, &self).hint("request less data")
            }
            McpError::Status(401 | 403) => failed(FailureKind::Unreadable, &self).hint(
                "the server needs a valid key: its manifest names the key; `sinew doctor` shows its state",
            ),
            McpError::Lost(_) | McpError::Status(_) | McpError::Unwell(_) => {
                failed(FailureKind::Transient, &self).hint(hint)
            }
            McpError::Endless(_) | McpError::Garbled(_) => failed(FailureKind::Crashed, &self).hint(hint),
        }
    }
}

/// Reason why a call to a server gave no result. Before the call was sent, nothing can have happened;
/// afterwards, its effect is unknown.
pub(crate) enum Stopped {
    /// The server is not the accepted one.
    Failure(Failure),
    /// The connection failed before the call was sent.
    Mcp(McpError),
    /// The connection failed after the call was sent.
    Cut(McpError),
    /// The deadline passed.
    Late,
}

impl Stopped {
    /// Returns true if the connection cannot be used again.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Stopped::Mcp(error) | Stopped::Cut(error) => error.is_final(),
            Stopped::Late => true,
            Stopped::Failure(_) => false,
        }
    }

    /// Returns true if the connection to the server was lost.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Stopped::Mcp(McpError::Lost(_)) | Stopped::Cut(McpError::Lost(_)))
    }

    /// Converts the reason into a tool failure. `said` is the end of the server's standard error.
    pub(crate) fn into_failure(self, said: &str, order: &Order) -> Failure {
        match self {
            Stopped::Failure(failure) => failure,
            Stopped::Mcp(error) => error.into_failure(said),
            Stopped::Cut(error) if error.may_have_happened() && changes(order) => {
                let message = format!("{error}; the call may have taken effect");
                let hint = match said.trim() {
                    "" => "check its effect first; Sinew does not retry".to_owned(),
                    said => format!("check its effect first; Sinew does not retry; last output: {said}"),
                };
                Failure::new(FailureKind::Interrupted, message).hint(hint)
            }
            Stopped::Cut(error) => error.into_failure(said),
            Stopped::Late => Stopped::late(),
        }
    }

    pub(crate) fn late() -> Failure {
        Failure::new(FailureKind::TimedOut, "the server did not respond in time and was stopped")
            .hint("the call may have taken effect: check first")
    }
}

/// Returns true if the call is recorded in the ledger as a change.
fn changes(order: &Order) -> bool {
    let category = order.value().call().definition().category();
    ![Category::READ_ONLY, Category::SELF_CHECK].contains(category)
}
