//! Errors of the fleet: what was refused, and why.

use thiserror::Error;

/// Reason why something of the fleet was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FleetError {
    /// A name cannot be a token of a subject.
    #[error(
        "`{0}` is not a fleet name: use 1 to 32 of the characters a-z, 0-9 and `-`, and begin with a letter or digit"
    )]
    Name(String),
    /// A key is not 64 hexadecimal digits.
    #[error("a signing key has 64 hexadecimal digits")]
    Key,
    /// A signed message does not have the form of its kind.
    #[error("the {kind} is malformed: {cause}")]
    Malformed {
        /// Kind of the message.
        kind: &'static str,
        /// Reason of the parser.
        cause: String,
    },
    /// Too few trusted keys signed.
    #[error("the {kind} has {valid} valid signatures of trusted keys, and needs {needed}")]
    Unsigned {
        /// Kind of the message.
        kind: &'static str,
        /// Distinct trusted keys that signed.
        valid: usize,
        /// Required number.
        needed: usize,
    },
    /// The message is of another fleet or group.
    #[error("the {kind} is for `{found}`, not for `{expected}`")]
    Foreign {
        /// Kind of the message.
        kind: &'static str,
        /// Fleet or group in the message.
        found: String,
        /// Fleet or group of this host.
        expected: String,
    },
    /// A revision, an epoch or a number is not newer than the one in effect.
    #[error("the {kind} has number {found}, and {current} is in effect: a rollback is a new, higher number")]
    Rollback {
        /// Kind of the message.
        kind: &'static str,
        /// Number in the message.
        found: u64,
        /// Number in effect.
        current: u64,
    },
    /// Two different messages have the same number.
    #[error(
        "two different versions of the {kind} have number {number}: a key signed both, or a signer was stolen"
    )]
    Equivocation {
        /// Kind of the message.
        kind: &'static str,
        /// Number of both.
        number: u64,
    },
    /// The message is too old to act on.
    #[error("the {kind} expired {seconds} s ago by the clock of this host")]
    Expired {
        /// Kind of the message.
        kind: &'static str,
        /// Seconds since the expiry.
        seconds: u64,
    },
    /// The message is from the future, so that a wrong clock cannot extend it.
    #[error("the {kind} was issued {seconds} s in the future by the clock of this host")]
    Future {
        /// Kind of the message.
        kind: &'static str,
        /// Seconds until its time.
        seconds: u64,
    },
    /// A file of a bundle is not what its hash says, or may not be in a bundle.
    #[error("file `{name}` of the bundle {reason}")]
    File {
        /// Name in the bundle.
        name: String,
        /// Reason.
        reason: &'static str,
    },
    /// The bundle needs a newer Sinew.
    #[error("the bundle needs Sinew {needed}, and this is {found}: upgrade this host")]
    Version {
        /// Minimum version.
        needed: String,
        /// Version of this program.
        found: String,
    },
    /// The NATS server is not supported.
    #[error(
        "the NATS server has version `{found}`: Sinew needs 2.12.7 or later of 2.12, or 2.14 or later, because {reason}"
    )]
    Server {
        /// Version that the server reported.
        found: String,
        /// Reason for the floor.
        reason: &'static str,
    },
    /// The local ledger and its mirror contradict each other.
    #[error("the mirror of this ledger contradicts it: {0}")]
    Mirror(String),
    /// A change of the roster is refused.
    #[error("{0}")]
    Roster(String),
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    Random,
    /// A server does not answer, or refuses.
    #[error("no answer from the fleet server {server}: {cause}")]
    Connection {
        /// Server.
        server: String,
        /// Reason.
        cause: String,
    },
    /// JetStream refused a request.
    #[error("the fleet server refused: {0}")]
    Stream(String),
    /// Another message was stored first.
    #[error("another message was stored first")]
    Conflict,
}
