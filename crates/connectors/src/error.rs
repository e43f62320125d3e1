//! What can go wrong between Sinew and a server that speaks the Model Context Protocol.

use outbound::{Credential, OutboundError};
use sandbox::SandboxError;
use tool::{Failure, FailureKind};

/// Why a server gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpError {
    /// It ended, closed its output or broke the rules by which messages are told apart.
    #[error("the server is gone: {0}")]
    Lost(String),
    /// One message was longer than anything it could have to say.
    #[error("the server sent a message of more than {0} bytes")]
    TooLong(usize),
    /// One message had more values than anybody reads.
    #[error("the server sent a message of more than {0} values")]
    TooMany(usize),
    /// It asked or told without end instead of answering.
    #[error("the server sent {0} and no answer")]
    Endless(&'static str),
    /// It answered with an error of the protocol.
    #[error("the server refused: {message} ({code})")]
    Refused {
        /// The number of the error.
        code: i64,
        /// Its words.
        message: String,
    },
    /// It answered something that is no answer to what it was asked.
    #[error("the server's answer is not what the protocol says: {0}")]
    Garbled(String),
    /// It answered with a status of HTTP that is no success.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// It does not do what its manifest says it does when it works.
    #[error("the server does not pass its own health check: {0}")]
    Unwell(String),
    /// No walls, or no program in them.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The way out is closed, or leads nowhere.
    #[error(transparent)]
    Outbound(Box<OutboundError>),
}

impl From<OutboundError> for McpError {
    fn from(error: OutboundError) -> Self {
        McpError::Outbound(Box::new(error))
    }
}

impl McpError {
    /// The same without a key, where the server repeats it in its own words.
    pub(crate) fn masked(self, credential: &Credential) -> McpError {
        let text = |said: String| credential.masked(&said).unwrap_or(said);
        match self {
            McpError::Lost(said) => McpError::Lost(text(said)),
            McpError::Refused { code, message } => McpError::Refused { code, message: text(message) },
            McpError::Garbled(said) => McpError::Garbled(text(said)),
            other => other,
        }
    }

    /// Whether the connection can be used no more.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, McpError::Refused { .. })
    }

    /// Whether what was asked for may have happened all the same: it was sent, or nobody can say that it was not.
    pub(crate) fn may_have_happened(&self) -> bool {
        match self {
            McpError::Refused { .. } | McpError::Sandbox(_) | McpError::Unwell(_) => false,
            McpError::Outbound(error) => matches!(
                **error,
                OutboundError::Garbled { .. }
                    | OutboundError::NoAnswer { .. }
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

    /// What the caller is told. `said` is the end of what the server wrote to its standard error.
    pub(crate) fn into_failure(self, said: &str) -> Failure {
        let hint = match said.trim() {
            "" => "its manifest names the server; try that command by hand".to_owned(),
            said => format!("it last said: {said}"),
        };
        let failed = |kind, error: &McpError| Failure::new(kind, error.to_string());
        match self {
            McpError::Outbound(error) => (*error).into(),
            McpError::Refused { .. } => failed(FailureKind::Crashed, &self).hint("the server's own words"),
            McpError::Sandbox(SandboxError::NoProgram { .. }) => {
                failed(FailureKind::NotFound, &self).hint("install the server where programs are looked for")
            }
            McpError::Sandbox(_) => failed(FailureKind::Io, &self)
                .hint("nothing was run; `sinew doctor` says what this machine lacks"),
            McpError::TooLong(_) | McpError::TooMany(_) => {
                failed(FailureKind::TooLarge, &self).hint("ask for less")
            }
            McpError::Status(401 | 403) => failed(FailureKind::Unreadable, &self).hint(
                "it wants a key, or another one: `key` in its manifest names which; `sinew doctor` says whether it is there",
            ),
            McpError::Lost(_) | McpError::Status(_) | McpError::Unwell(_) => {
                failed(FailureKind::Transient, &self).hint(hint)
            }
            McpError::Endless(_) | McpError::Garbled(_) => failed(FailureKind::Crashed, &self).hint(hint),
        }
    }
}
