//! What the daemon says of itself.

use std::sync::atomic::{AtomicU64, Ordering};

use governance::Transition;
use ledger::{Health, State};
use serde::Serialize;
use serde_json::{Map, Value};
use tool::Mode;

use crate::reload::ReloadReport;

/// The state of the layer, for `sinew status` and `sinew/status`.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The running version.
    pub version: &'static str,
    /// The current mode.
    pub mode: Mode,
    /// A change of mode that waits for a human to agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposalStatus>,
    /// The last reload of the configuration: whether it holds, waits for a human, or could not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadReport>,
    /// Since the layer was made.
    pub uptime_seconds: u64,
    /// How calls ended, and how many run now.
    pub calls: CallCounts,
    /// Questions to a human.
    pub approvals: ApprovalsStatus,
    /// What is left of the limits that hold for all tools in this mode.
    pub remaining: Map<String, Value>,
    /// How many tools there are.
    pub tools: usize,
    /// Pins the policy in force.
    pub policy_hash: String,
    /// The folders callers work in.
    pub workspaces: Vec<String>,
    /// The state of the ledger.
    pub ledger: LedgerStatus,
}

/// Questions to a human.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ApprovalsStatus {
    /// How many wait for an answer.
    pub pending: usize,
    /// Whether a yes takes the operator's PIN.
    pub pin: bool,
}

/// A change of mode that a rule wants and a human decides.
#[derive(Clone, Debug, Serialize)]
pub struct ProposalStatus {
    /// The mode it would lead to; setting it confirms the proposal.
    pub to: Mode,
    /// The rule and what was measured.
    pub reason: String,
}

impl ProposalStatus {
    pub(crate) fn of(transition: &Transition) -> Self {
        ProposalStatus { to: transition.to, reason: transition.reason() }
    }
}

/// Whether records are taken, and how many there are.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerStatus {
    /// `ready`, `unavailable` or `closed`.
    pub state: &'static str,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of the last record.
    pub records: u64,
    /// Calls that have an intent and no outcome.
    pub open_intents: u64,
    /// Records that were acknowledged and are gone. Stays 0.
    pub lost_records: u64,
    /// Calls whose records wait in memory until they can be written.
    pub owed: u64,
    /// Entries that could not be taken; each caller was told.
    pub turned_away: u64,
}

impl LedgerStatus {
    pub(crate) fn of(health: &Health) -> Self {
        let (state, reason) = match &health.state {
            State::Ready => ("ready", None),
            State::Unavailable { reason } => ("unavailable", Some(reason.to_string())),
            State::Closed => ("closed", None),
        };
        LedgerStatus {
            state,
            reason,
            records: health.head,
            open_intents: health.open_intents,
            lost_records: health.lost_records,
            owed: health.owed,
            turned_away: health.turned_away,
        }
    }
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
        CallCounts {
            running,
            done: read(&self.done),
            failed: read(&self.failed),
            refused: read(&self.refused),
        }
    }
}
