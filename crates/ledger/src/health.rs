//! State and counters of the ledger, for `status`, for metrics and for the sensors that change the mode.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::entry::RemovalTotals;

/// Availability of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerState {
    /// The ledger accepts records.
    Ready,
    /// The ledger accepts no records until a new durable segment exists, so no risky call may run.
    Unavailable {
        /// Cause of the failure.
        reason: Arc<str>,
    },
    /// The ledger was closed.
    Closed,
}

/// Subscription to changes of the ledger's state. It returns copies only: a caller that kept a borrow of the
/// state while waiting for a record would block the ledger from publishing that it is ready again.
#[derive(Clone, Debug)]
pub struct LedgerStateWatch(watch::Receiver<LedgerState>);

impl LedgerStateWatch {
    pub(crate) fn new(states: watch::Receiver<LedgerState>) -> Self {
        LedgerStateWatch(states)
    }

    /// Waits for the next state that differs from the last one returned here. Never completes after the
    /// ledger is dropped.
    pub async fn changed(&mut self) -> LedgerState {
        match self.0.changed().await {
            Ok(()) => self.0.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Effects of the size limit of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeLimitPressure {
    /// Segments with records younger than the minimum age that were removed since the ledger was created.
    pub removed_segments: u64,
    /// Reads are refused, because the rest of the size limit is reserved for records of changes.
    pub reads_refused: bool,
}

/// State and counters of the ledger at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerHealthReport {
    /// Availability of the ledger.
    pub state: LedgerState,
    /// Sequence number of the last record.
    pub head: u64,
    /// Sequence number of the last record known to be on disk.
    pub synced: u64,
    /// Duration of recovery at start, from taking the lock to a durable first record.
    pub recovery_duration: Duration,
    /// Calls that have an intent and no outcome.
    pub open_intents: u64,
    /// Records that were acknowledged and then lost by a disk error or by tampering. Expected to stay 0.
    pub lost_records: u64,
    /// Entries that were rejected; each caller received an error.
    pub rejected_entries: u64,
    /// Records that wait in memory until the ledger accepts records again.
    pub deferred_records: u64,
    /// Number of syncs of the disk.
    pub syncs: u64,
    /// Bytes of records in the segment that is being written.
    pub segment_bytes: u64,
    /// Bytes of all segments. Those before the open one are counted at the last scan of the folder.
    pub bytes: u64,
    /// Segments that retention has removed.
    pub removed: RemovalTotals,
    /// Effects of the size limit.
    pub pressure: SizeLimitPressure,
    /// Last record in the index; queries read later ones from the segments.
    pub indexed: u64,
}
