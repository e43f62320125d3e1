//! The sessions that are open, as the operator sees them.

use jiff::Timestamp;
use serde::Serialize;
use tool::Caller;

use super::WorkerSession;
use crate::layer::ToolExecutionLayer;

/// One session that is open.
#[derive(Clone, Debug, Serialize)]
pub struct SessionStanding {
    /// Names it in results and records.
    pub session_id: String,
    /// What whoever opened it calls it; one with a name outlives the connection that opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who opened it.
    pub by: Caller,
    /// Since when.
    pub since: Timestamp,
    /// The only tools its worker may call.
    pub allowlist: Vec<String>,
    /// Turns so far.
    pub turns: u32,
    /// Calls so far, in all turns.
    pub hops: u64,
    /// Calls that are left in this turn.
    pub hops_left: u32,
    /// What all turns have cost.
    pub cost: f64,
}

impl ToolExecutionLayer {
    /// The sessions that are open, oldest first.
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
