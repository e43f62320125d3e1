//! Identity that limits are counted by. It has a text form, because ledger records and commands of the operator name it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Process. The start time tells it apart from a later process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot; `None` if the system does not report it.
    pub started: Option<u64>,
}

/// Identity that limits, suspensions and approvals are bound to. A caller cannot choose it: it comes from the kernel, and
/// a worker session has that of the caller that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub enum CallerKey {
    /// A process, identified by its peer credentials.
    Process(ProcessIdentity),
    /// A user, if the peer credentials have no process id.
    User(u32),
}

/// Error for a text that is not a caller key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a caller: expected `process:PID@START` or `user:UID`", .0.escape_debug())]
pub struct CallerKeyError(String);

impl CallerKey {
    /// Returns the key of a process whose start time is unknown.
    pub fn of_pid(pid: i32) -> Self {
        CallerKey::Process(ProcessIdentity { pid, started: None })
    }
}

impl fmt::Display for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallerKey::Process(ProcessIdentity { pid, started: Some(started) }) => {
                write!(f, "process:{pid}@{started}")
            }
            CallerKey::Process(ProcessIdentity { pid, started: None }) => write!(f, "process:{pid}"),
            CallerKey::User(uid) => write!(f, "user:{uid}"),
        }
    }
}

impl Serialize for CallerKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for CallerKey {
    type Err = CallerKeyError;

    fn from_str(text: &str) -> Result<Self, CallerKeyError> {
        parse(text).ok_or_else(|| CallerKeyError(text.to_owned()))
    }
}

impl TryFrom<String> for CallerKey {
    type Error = CallerKeyError;

    fn try_from(text: String) -> Result<Self, CallerKeyError> {
        text.parse()
    }
}

fn parse(text: &str) -> Option<CallerKey> {
    let (kind, rest) = text.split_once(':')?;
    match (kind, rest.split_once('@')) {
        ("user", None) => rest.parse().ok().map(CallerKey::User),
        ("process", None) => rest.parse().ok().map(CallerKey::of_pid),
        ("process", Some((pid, started))) => {
            let (pid, started) = (pid.parse().ok()?, started.parse().ok()?);
            Some(CallerKey::Process(ProcessIdentity { pid, started: Some(started) }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_its_text_are_equivalent() {
        for text in ["process:7", "process:7@123456789012", "user:0", "user:4294967295"] {
            assert_eq!(text.parse::<CallerKey>().unwrap().to_string(), text);
        }
        for text in ["", "process", "process:", "process:x", "process:1@", "user:1@2", "session:1", "user:-1"]
        {
            let error = text.parse::<CallerKey>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is not a caller")), "{error}");
        }
    }
}
