//! Who calls: what the kernel and the door say, never what the caller says of itself alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::canonical;

/// The way a call came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// `sinew/execute` on the agent socket.
    Socket,
    /// MCP on the agent socket.
    Mcp,
    /// `sinew call` without a daemon, in its own process.
    Embedded,
    /// `control/execute` on the human's socket.
    Control,
    /// `sinew hook`: another program asks about a tool of its own.
    Hook,
}

/// Whose door it is. A name that is given at one says nothing about who gives it at another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Everybody's who works for the user.
    #[default]
    Agents,
    /// The human's alone.
    Human,
    /// None: the call is made by the process that runs it.
    Own,
}

impl Door {
    /// Whose door it is.
    pub fn side(self) -> Side {
        match self {
            Door::Socket | Door::Mcp | Door::Hook => Side::Agents,
            Door::Control => Side::Human,
            Door::Embedded => Side::Own,
        }
    }
}

impl Side {
    /// What a person is told of a party besides its name. Of most there is nothing to tell.
    pub fn told(self) -> &'static str {
        match self {
            Side::Agents => "",
            Side::Human => ", through the human's door",
            Side::Own => ", in a process of its own",
        }
    }
}

/// The party on whose behalf a call runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    /// The peer's user id, from the kernel.
    pub uid: u32,
    /// The peer's process id, for display only: it can be recycled or inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// The door it came through.
    pub door: Door,
    /// The connection, unique in this daemon's life.
    pub connection: u64,
    /// What the client calls itself. Untrusted: it can narrow whose something is, never widen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The worker session this call belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// What is shown of a name that is not shown whole, and the beginning of the digest of all of it: names that differ
/// somewhere are different names.
pub fn shortened(shown: &str, longest: usize, whole: &str) -> String {
    let digest = canonical::sha256_hex(whole.as_bytes());
    let mark: String = [" #"].into_iter().chain(digest.get(..16)).collect();
    let shown: String = shown.chars().take(longest.saturating_sub(mark.len())).collect();
    format!("{}{mark}", shown.trim_end())
}

impl Caller {
    /// Whether two calls are the same party's. What a client calls itself is its own word: it can only narrow. Whoever
    /// comes through the human's door is another party than whoever gives themselves the same name at the agents'.
    pub fn is_same_party(&self, other: &Caller) -> bool {
        self.identity() == other.identity()
    }

    /// One word for the party: what is kept for one is found by nobody else's.
    pub fn party(&self) -> String {
        canonical::sha256_hex(&canonical::bytes(&json!(self.identity())))
    }

    fn identity(&self) -> (u32, Option<&str>, Option<&str>, Side) {
        (self.uid, self.client.as_deref(), self.session.as_deref(), self.door.side())
    }

    /// The name by which records are filtered: the client's own word for itself, else the user.
    pub fn display_name(&self) -> String {
        self.client.clone().unwrap_or_else(|| format!("uid {}", self.uid))
    }
}
