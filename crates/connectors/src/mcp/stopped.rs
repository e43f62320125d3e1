//! Why a call of a server gave no result, and what that means for the caller: before the call was sent nothing can have
//! happened; after it nobody can say.

use registry::Order;
use tool::{Category, Failure, FailureKind};

use crate::error::McpError;

/// Why a call gave no result.
pub(crate) enum Stopped {
    /// The server is not what was accepted.
    Failure(Failure),
    /// It did not answer as it should, before it was asked to do anything.
    Mcp(McpError),
    /// It was asked, and did not answer as it should.
    Cut(McpError),
    /// It did not answer.
    Late,
}

impl Stopped {
    /// Whether the conversation can be used no more.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Stopped::Mcp(error) | Stopped::Cut(error) => error.is_final(),
            Stopped::Late => true,
            Stopped::Failure(_) => false,
        }
    }

    /// Whether the server is gone.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Stopped::Mcp(McpError::Lost(_)) | Stopped::Cut(McpError::Lost(_)))
    }

    /// What the caller is told. `said` is the end of what the server wrote to its standard error.
    pub(crate) fn into_failure(self, said: &str, order: &Order) -> Failure {
        match self {
            Stopped::Failure(failure) => failure,
            Stopped::Mcp(error) => error.into_failure(said),
            Stopped::Cut(error) if error.may_have_happened() && changes(order) => {
                let message = format!("{error}; what it was asked for may have happened");
                let hint = match said.trim() {
                    "" => "look first; Sinew does not try it again".to_owned(),
                    said => format!("look first; Sinew does not try it again; it last said: {said}"),
                };
                Failure::new(FailureKind::Interrupted, message).hint(hint)
            }
            Stopped::Cut(error) => error.into_failure(said),
            Stopped::Late => Stopped::late(),
        }
    }

    pub(crate) fn late() -> Failure {
        Failure::new(FailureKind::TimedOut, "the server has not answered in time, and was ended")
            .hint("its effect may have happened: look first")
    }
}

/// Whether a call is one of those that are on record as a change.
fn changes(order: &Order) -> bool {
    let category = order.value().call().definition().category();
    ![Category::READ_ONLY, Category::SELF_CHECK].contains(category)
}
