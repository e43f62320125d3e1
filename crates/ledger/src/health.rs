//! How the ledger is, for `status`, for metrics and for the sensors that move the mode.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

/// Whether records are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All is well.
    Ready,
    /// Nothing is taken, and so nothing risky may run, until a new durable segment exists.
    Unavailable {
        /// What went wrong.
        reason: Arc<str>,
    },
    /// The ledger was closed.
    Closed,
}

/// Follows whether records are taken. Hands out copies only: whoever kept a look at the state itself while it waits for a
/// record would keep the ledger from saying that it takes records again.
#[derive(Clone, Debug)]
pub struct StateWatch(watch::Receiver<State>);

impl StateWatch {
    pub(crate) fn new(states: watch::Receiver<State>) -> Self {
        StateWatch(states)
    }

    /// The next state that differs from the last one seen here. Never comes when the ledger is gone.
    pub async fn changed(&mut self) -> State {
        match self.0.changed().await {
            Ok(()) => self.0.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// A look at the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether records are taken.
    pub state: State,
    /// The number of the last record.
    pub head: u64,
    /// The last record that is on disk for certain.
    pub synced: u64,
    /// How long it took to pick up where the last writer stopped, from the lock to a durable start.
    pub recovered_in: Duration,
    /// Calls that have an intent and no outcome.
    pub open_intents: u64,
    /// Records that were acknowledged and then taken by an error or by somebody. Stays 0.
    pub lost_records: u64,
    /// Entries that could not be taken; each caller was told.
    pub turned_away: u64,
    /// Outcomes that wait in memory until records are taken again.
    pub owed: u64,
    /// How often the disk was asked to make records durable.
    pub syncs: u64,
    /// The bytes of the segment that is being written.
    pub segment_bytes: u64,
    /// The last record the index knows; queries read the rest from the segments.
    pub indexed: u64,
}
