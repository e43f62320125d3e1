//! Identity of a caller: facts from the kernel and the endpoint, narrowed by the name the client gives
//! itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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
    /// Returns the party that this endpoint serves.
    pub fn party(self) -> EndpointParty {
        match self {
            CallerEndpoint::Socket | CallerEndpoint::Mcp | CallerEndpoint::Hook => EndpointParty::Agents,
            CallerEndpoint::Control => EndpointParty::Human,
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

    fn identity(&self) -> (u32, Option<&str>, Option<&str>, EndpointParty) {
        (self.uid, self.client.as_deref(), self.session.as_deref(), self.endpoint.party())
    }

    /// Returns the name by which ledger records are filtered: the client's name for itself, else the user id.
    pub fn display_name(&self) -> String {
        self.client.clone().unwrap_or_else(|| format!("uid {}", self.uid))
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
    }
}
