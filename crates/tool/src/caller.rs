//! Identity of a caller: facts from the kernel and the endpoint, narrowed by the name the client gives
//! itself.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use crate::canonical;

/// Endpoint through which a call arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallerEndpoint {
    /// `sinew/execute` on the agent socket.
    Socket,
    /// MCP on the agent socket.
    Mcp,
    /// `sinew call` without a daemon, in its own process.
    Embedded,
    /// `control/execute` on the control socket.
    Control,
    /// The operator's web console, by the connection of `control.sock` that announced its port.
    Console,
    /// `sinew hook`: another program submits a call of one of its own tools for a decision.
    Hook,
}

/// Party that an endpoint serves. Equal client names at endpoints of different parties are different callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointParty {
    /// Agents and other programs that work for the user.
    #[default]
    Agents,
    /// The operator only.
    Human,
    /// No other party: the process that makes the call also runs it.
    Own,
}

impl CallerEndpoint {
    /// Returns the name of the operator's client in the record of a decision, if it is not the command line.
    pub fn operator_client(self) -> Option<&'static str> {
        (self == CallerEndpoint::Console).then_some("console")
    }

    /// Returns the party that this endpoint serves.
    pub fn party(self) -> EndpointParty {
        match self {
            CallerEndpoint::Socket | CallerEndpoint::Mcp | CallerEndpoint::Hook => EndpointParty::Agents,
            CallerEndpoint::Control | CallerEndpoint::Console => EndpointParty::Human,
            CallerEndpoint::Embedded => EndpointParty::Own,
        }
    }
}

impl EndpointParty {
    /// Returns the text that follows a caller's name in messages for people; empty for agents.
    pub fn description_suffix(self) -> &'static str {
        match self {
            EndpointParty::Agents => "",
            EndpointParty::Human => ", through the control socket",
            EndpointParty::Own => ", in its own process",
        }
    }
}

/// Party on whose behalf a call runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    /// User id of the peer, from the kernel.
    pub uid: u32,
    /// Process id of the peer, for display only: it can be recycled or inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Endpoint the call arrived at.
    #[serde(alias = "door")]
    pub endpoint: CallerEndpoint,
    /// Connection number, unique within one run of the daemon.
    pub connection: u64,
    /// Name the client gives itself. Untrusted: it can narrow access to something, never widen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Worker session this call belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Identity that limits count by: the process of the peer, the opener of its worker session, or the host of a hook.
    /// `None` in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<CallerKey>,
}

impl Caller {
    /// Returns true if two calls belong to the same party. The client name is untrusted, so it can only
    /// narrow the party. The same name on the control socket and on the agent socket belongs to different
    /// parties.
    pub fn is_same_party(&self, other: &Caller) -> bool {
        self.identity() == other.identity()
    }

    /// Returns a digest that identifies the party, as a key for state that no other party may find.
    pub fn party_digest(&self) -> String {
        canonical::sha256_hex(&canonical::bytes(&json!(self.identity())))
    }

    /// Returns true if two calls belong to the same party and come from the same process or worker session. Another
    /// process can copy a client name, so state that must not be shared is bound to this.
    pub fn is_same_instance(&self, other: &Caller) -> bool {
        self.is_same_party(other) && self.bound_key() == other.bound_key()
    }

    /// Returns true if two calls of agents come from the same process, under any name and in any worker session.
    pub fn is_same_process(&self, other: &Caller) -> bool {
        self.bound_key().is_some_and(|key| other.bound_key() == Some(key))
    }

    /// Returns a digest that identifies the party and its process, as a key for state that no other process may
    /// find.
    pub fn instance_digest(&self) -> String {
        canonical::sha256_hex(&canonical::bytes(&json!([self.identity(), self.bound_key()])))
    }

    /// Returns the identity that limits are counted by.
    pub fn key(&self) -> CallerKey {
        let peer = || self.pid.map_or(CallerKey::User(self.uid), CallerKey::of_pid);
        self.account.unwrap_or_else(peer)
    }

    /// Returns the key that state of this caller is bound to. Each command of the operator is a process of its own, so
    /// the operator has none.
    pub fn bound_key(&self) -> Option<CallerKey> {
        (self.endpoint.party() == EndpointParty::Agents).then(|| self.key())
    }

    fn identity(&self) -> (u32, Option<&str>, Option<&str>, EndpointParty) {
        (self.uid, self.client.as_deref(), self.session.as_deref(), self.endpoint.party())
    }

    /// Returns the name by which ledger records are filtered: the client's name for itself, else the user id.
    pub fn display_name(&self) -> String {
        self.client.clone().unwrap_or_else(|| format!("uid {}", self.uid))
    }
}

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
    fn caller_of_an_older_record_is_readable() {
        let record = |field: &str| json!({"uid": 1, field: "mcp", "connection": 2});
        let [old, new] =
            ["door", "endpoint"].map(|name| serde_json::from_value::<Caller>(record(name)).unwrap());
        assert_eq!((&old, old.endpoint), (&new, CallerEndpoint::Mcp));
        assert_eq!(json!(old), record("endpoint"));
        assert_eq!(old.key(), CallerKey::User(1));
    }

    #[test]
    fn process_with_a_copied_name_is_another_instance() {
        let caller = |pid, started, endpoint| Caller {
            uid: 1,
            pid: Some(pid),
            endpoint,
            connection: 1,
            client: Some("agent".to_owned()),
            session: None,
            account: Some(CallerKey::Process(ProcessIdentity { pid, started })),
        };
        let agent = |pid, started| caller(pid, started, CallerEndpoint::Mcp);
        let first = agent(7, Some(1));
        let again = Caller { connection: 2, endpoint: CallerEndpoint::Socket, ..first.clone() };
        assert!(first.is_same_instance(&again), "another connection of the same process");
        assert_eq!(first.instance_digest(), again.instance_digest());
        for other in [agent(8, Some(1)), agent(7, Some(2)), agent(7, None)] {
            assert!(first.is_same_party(&other) && !first.is_same_instance(&other), "{other:?}");
            assert_ne!(first.instance_digest(), other.instance_digest());
        }
        let operator = |pid| caller(pid, None, CallerEndpoint::Control);
        assert!(operator(1).is_same_instance(&operator(2)), "each command is a process of its own");
    }

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
