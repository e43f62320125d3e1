//! Failure of a call that was accepted: the tool started, or should have started, and did not complete.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Refusal;
use crate::result::SandboxTier;

/// Kind of a failure, as a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The target does not exist.
    NotFound,
    /// The target is of another kind: a directory, a FIFO, a device.
    WrongKind,
    /// The data is larger than the call or the policy allows.
    TooLarge,
    /// The operating system denied access.
    Unreadable,
    /// The target changed since the caller last read it.
    Conflict,
    /// Policy denied something the tool met while it ran: a redirect, or the address that a host name
    /// resolves to.
    Denied,
    /// The timeout expired.
    TimedOut,
    /// The caller, the operator or a mode change stopped the call.
    Cancelled,
    /// The client disconnected before the call ended, which stopped the call.
    ClientGone,
    /// The machine ran out of disk, memory or descriptors.
    ResourceExhausted,
    /// Temporary fault of the network or a peer.
    Transient,
    /// The call was interrupted after it started, and its effects are unknown.
    Interrupted,
    /// The tool is broken.
    Crashed,
    /// Any other error of the operating system.
    Io,
}

/// Party responsible for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultParty {
    /// The caller asked for something that cannot be done.
    Caller,
    /// The tool, or a service it uses.
    Tool,
    /// The network, or a peer that could not be reached.
    Network,
    /// The machine.
    Machine,
    /// The operator, who stopped the call by a mode change or by stopping Sinew. Not an error.
    Operator,
}

impl FailureKind {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureKind::NotFound => "not_found",
            FailureKind::WrongKind => "wrong_kind",
            FailureKind::TooLarge => "too_large",
            FailureKind::Unreadable => "unreadable",
            FailureKind::Conflict => "conflict",
            FailureKind::Denied => "denied",
            FailureKind::TimedOut => "timed_out",
            FailureKind::Cancelled => "cancelled",
            FailureKind::ClientGone => "client_gone",
            FailureKind::ResourceExhausted => "resource_exhausted",
            FailureKind::Transient => "transient",
            FailureKind::Interrupted => "interrupted",
            FailureKind::Crashed => "crashed",
            FailureKind::Io => "io",
        }
    }

    /// Returns the party responsible for this kind of failure.
    pub fn fault(self) -> FaultParty {
        match self {
            FailureKind::NotFound
            | FailureKind::WrongKind
            | FailureKind::TooLarge
            | FailureKind::Unreadable
            | FailureKind::Conflict
            | FailureKind::Denied
            | FailureKind::ClientGone => FaultParty::Caller,
            FailureKind::Cancelled => FaultParty::Operator,
            FailureKind::TimedOut | FailureKind::Interrupted | FailureKind::Crashed => FaultParty::Tool,
            FailureKind::Transient => FaultParty::Network,
            FailureKind::ResourceExhausted | FailureKind::Io => FaultParty::Machine,
        }
    }

    /// Returns true if the same call may succeed later.
    pub fn is_retryable(self) -> bool {
        match self {
            FailureKind::TimedOut
            | FailureKind::Transient
            | FailureKind::ResourceExhausted
            | FailureKind::Conflict => true,
            FailureKind::NotFound
            | FailureKind::WrongKind
            | FailureKind::TooLarge
            | FailureKind::Unreadable
            | FailureKind::Denied
            | FailureKind::Cancelled
            | FailureKind::ClientGone
            | FailureKind::Interrupted
            | FailureKind::Crashed
            | FailureKind::Io => false,
        }
    }
}

/// Outcome of a call that started and did not complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Message. Names the value concerned, never file content.
    pub message: String,
    /// Advice on what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Output produced before the failure.
    #[serde(skip)]
    pub output: Option<Value>,
    /// MCP content blocks with which the server behind the tool reported the failure.
    #[serde(skip)]
    pub content: Vec<Value>,
    /// Refusal of the rule that stopped the tool, if policy did.
    #[serde(skip)]
    pub refusal: Option<Box<Refusal>>,
    /// Sandbox tier the tool ran in.
    #[serde(skip)]
    pub sandbox: SandboxTier,
    /// True if the network or a peer is responsible. The kind does not show this: a timeout may be a fault of either.
    #[serde(skip)]
    pub is_network_fault: bool,
    /// Pause that the peer asks for before it is asked again.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// Creates a failure without hint, output or refusal.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Failure {
            kind,
            message: message.into(),
            hint: None,
            output: None,
            content: Vec::new(),
            refusal: None,
            sandbox: SandboxTier::None,
            is_network_fault: false,
            retry_after: None,
        }
    }

    /// Creates the failure of a peer that did not respond in time.
    pub fn network_timeout(message: impl Into<String>) -> Self {
        Failure { is_network_fault: true, ..Failure::new(FailureKind::TimedOut, message) }
    }

    /// Returns the party responsible for this failure.
    pub fn fault(&self) -> FaultParty {
        if self.is_network_fault { FaultParty::Network } else { self.kind.fault() }
    }

    /// Returns true if the network failed in a way that a second attempt may not meet.
    pub fn is_transient(&self) -> bool {
        self.kind == FailureKind::Transient || (self.kind == FailureKind::TimedOut && self.is_network_fault)
    }

    /// Creates the failure of a tool that policy stopped while it ran.
    pub fn denied(refusal: Box<Refusal>) -> Self {
        let failure = Failure::new(FailureKind::Denied, refusal.reason.clone());
        Failure { hint: refusal.hint.clone(), refusal: Some(refusal), ..failure }
    }

    /// Adds a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Converts an operating system error, prefixed with the operation that failed.
    pub fn from_io(doing: &str, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => FailureKind::NotFound,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                FailureKind::Unreadable
            }
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::OutOfMemory => FailureKind::ResourceExhausted,
            _ if is_out_of_descriptors(error) => FailureKind::ResourceExhausted,
            _ => FailureKind::Io,
        };
        Failure::new(kind, format!("{doing}: {error}"))
    }
}

/// Returns true for EMFILE and ENFILE, which have no `ErrorKind`. Their numbers are equal on Linux and macOS.
fn is_out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
