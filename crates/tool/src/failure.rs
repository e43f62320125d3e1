//! A failure: the tool ran, or should have, and it was not the caller's words that stopped it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Refusal, SandboxTier};

/// What went wrong, in one stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Nothing is there.
    NotFound,
    /// Something of another kind is there: a directory, a FIFO, a device.
    WrongKind,
    /// It is larger than the call or the policy allows.
    TooLarge,
    /// The operating system said no.
    Unreadable,
    /// It changed since the caller looked.
    Conflict,
    /// On its way it came to something that policy closes: a redirect, or an address behind a name.
    Denied,
    /// The deadline passed.
    TimedOut,
    /// The caller, an operator or a mode change ended it.
    Cancelled,
    /// The machine ran out of something: disk, memory, descriptors.
    ResourceExhausted,
    /// A passing fault of a network or a peer.
    Transient,
    /// It was cut off after it had begun, and nobody can say what it has done.
    Interrupted,
    /// The tool itself is broken.
    Crashed,
    /// Anything else the operating system reported.
    Io,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The caller asked for something that cannot be had.
    Caller,
    /// The tool or what it talks to.
    Tool,
    /// The machine.
    Machine,
    /// Nobody's: whoever runs Sinew stopped the call, by a mode or by stopping Sinew.
    Operator,
}

impl FailureKind {
    /// The word on the wire.
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
            FailureKind::ResourceExhausted => "resource_exhausted",
            FailureKind::Transient => "transient",
            FailureKind::Interrupted => "interrupted",
            FailureKind::Crashed => "crashed",
            FailureKind::Io => "io",
        }
    }

    /// Whose fault it is.
    pub fn fault(self) -> Fault {
        match self {
            FailureKind::NotFound
            | FailureKind::WrongKind
            | FailureKind::TooLarge
            | FailureKind::Unreadable
            | FailureKind::Conflict
            | FailureKind::Denied => Fault::Caller,
            FailureKind::Cancelled => Fault::Operator,
            FailureKind::TimedOut
            | FailureKind::Transient
            | FailureKind::Interrupted
            | FailureKind::Crashed => Fault::Tool,
            FailureKind::ResourceExhausted | FailureKind::Io => Fault::Machine,
        }
    }

    /// Whether the same call may succeed later.
    pub fn retryable(self) -> bool {
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
            | FailureKind::Interrupted
            | FailureKind::Crashed
            | FailureKind::Io => false,
        }
    }
}

/// A call that was started and did not reach its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// The sentence. Names the value, never file content.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What was produced before it went wrong.
    #[serde(skip)]
    pub output: Option<Value>,
    /// The rule's own words, where policy stopped it on its way.
    #[serde(skip)]
    pub refusal: Option<Box<Refusal>>,
    /// The walls it ran in.
    #[serde(skip)]
    pub sandbox: SandboxTier,
}

impl Failure {
    /// A failure with its kind and sentence.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let (message, sandbox) = (message.into(), SandboxTier::None);
        Failure { kind, message, hint: None, output: None, refusal: None, sandbox }
    }

    /// Policy stopped it on its way.
    pub fn denied(refusal: Box<Refusal>) -> Self {
        let failure = Failure::new(FailureKind::Denied, refusal.reason.clone());
        Failure { hint: refusal.hint.clone(), refusal: Some(refusal), ..failure }
    }

    /// The same failure with a way out.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What an operating system error means for the caller.
    pub fn from_io(doing: &str, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => FailureKind::NotFound,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                FailureKind::Unreadable
            }
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::OutOfMemory => FailureKind::ResourceExhausted,
            _ if out_of_descriptors(error) => FailureKind::ResourceExhausted,
            _ => FailureKind::Io,
        };
        Failure::new(kind, format!("{doing}: {error}"))
    }
}

/// EMFILE and ENFILE have no `ErrorKind` of their own; both numbers are the same on Linux and macOS.
fn out_of_descriptors(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24))
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
