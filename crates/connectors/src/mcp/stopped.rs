//! Reasons why a call to a server gave no result. Before the call was sent, nothing can have happened;
//! afterwards, its effect is unknown.

use registry::Order;
use tool::{Category, Failure, FailureKind};

use crate::error::McpError;

/// Reason why a call gave no result.
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
