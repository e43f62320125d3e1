//! What the daemon says of itself.

use serde::Serialize;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use tool::Mode;

/// The state of the layer, for `sinew status` and `sinew/status`.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The running version.
    pub version: &'static str,
    /// The current mode.
    pub mode: Mode,
    /// Since the layer was made.
    pub uptime_seconds: u64,
    /// How calls ended, and how many run now.
    pub calls: CallCounts,
    /// How many tools there are.
    pub tools: usize,
    /// Pins the policy in force.
    pub policy_hash: String,
    /// The folders callers work in.
    pub workspaces: Vec<String>,
    /// The state of the ledger.
    pub ledger: Value,
}

/// Calls since start, by their end.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CallCounts {
    /// At work now.
    pub running: usize,
    /// Ran to their end.
    pub done: u64,
    /// Started and did not.
    pub failed: u64,
    /// Never started.
    pub refused: u64,
}

/// The counters behind [`CallCounts`].
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Tally {
    pub(crate) fn counts(&self, running: usize) -> CallCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CallCounts { running, done: read(&self.done), failed: read(&self.failed), refused: read(&self.refused) }
    }
}
