//! List of open sessions for the operator.

use jiff::Timestamp;
use serde::Serialize;
use tool::Caller;

use super::WorkerSession;

/// Status of an open session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionStatus {
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

impl WorkerSession {
    pub(super) fn status(&self) -> SessionStatus {
        let total = *self.total();
        SessionStatus {
            session_id: self.id.clone(),
            name: self.name.clone(),
            by: self.opened_by.clone(),
            since: self.opened_at,
            allowlist: self.terms.allowlist.clone(),
            turns: total.turns,
            hops: total.hops,
            hops_left: self.turn().hops_left(self.budget()),
            cost: total.cost,
        }
    }
}
