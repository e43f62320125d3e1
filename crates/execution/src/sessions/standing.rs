//! List of open sessions for the operator.

use jiff::Timestamp;
use serde::Serialize;
use tool::Caller;

use super::WorkerSession;
use crate::layer::ToolExecutionLayer;

/// Status of an open session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionStanding {
    /// Id of the session in results and ledger records.
    pub session_id: String,
    /// Name given by the client that opened it. A named session outlives the connection that opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Caller that opened the session.
    pub by: Caller,
    /// Time of opening.
    pub since: Timestamp,
    /// The only tools its worker may call.
    pub allowlist: Vec<String>,
    /// Turns so far.
    pub turns: u32,
    /// Calls so far, in all turns.
    pub hops: u64,
    /// Calls left in this turn.
    pub hops_left: u32,
    /// Cost of all turns.
    pub cost: f64,
}

impl ToolExecutionLayer {
    /// Open sessions, oldest first.
    pub fn worker_sessions(&self) -> Vec<SessionStanding> {
        let mut open: Vec<SessionStanding> =
            self.sessions.list().values().map(|session| session.seen()).collect();
        open.sort_by(|one, other| (one.since, &one.session_id).cmp(&(other.since, &other.session_id)));
        open
    }
}

impl WorkerSession {
    fn seen(&self) -> SessionStanding {
        let total = *self.total();
        SessionStanding {
            session_id: self.id.clone(),
            name: self.name.clone(),
            by: self.by.clone(),
            since: self.since,
            allowlist: self.terms.allowlist.clone(),
            turns: total.turns,
            hops: total.hops,
            hops_left: self.turn().hops_left(self.budget()),
            cost: total.cost,
        }
    }
}
