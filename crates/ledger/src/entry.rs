//! Entries of the ledger: one type per kind of line. The component that creates an entry redacts its texts
//! and values; content appears only as a keyed digest.
//!
//! This module does not know how a line is sealed or stored.

mod call;
mod event;
mod housekeeping;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use call::{
    CallHeader, LedgerOutcome, OutcomeFacts, OutcomeStatus, RecordedDecision, RecordedEffect,
    RecordedOutcome, RecordedRead, RecordedRefusal, StageTime,
};
pub use event::{
    ApprovalEvent, ApprovalEventEntry, DaemonStart, DaemonStop, ModeChange, NoteEntry, ReloadEntry,
    ReloadResult, SessionEntry, SessionEvent, UndoEntry,
};
pub use housekeeping::{
    AbandonedSegment, Checkpoint, ExecutionCounts, MissingCause, MissingRecords, RecoveryEntry,
    RemovalTotals, ResumptionEntry, RetentionEntry, TornBytes,
};

/// Content of one line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LedgerEntry {
    /// A call was permitted and is about to run: the intent.
    Decision(RecordedDecision),
    /// A call that had an intent ended.
    Outcome(RecordedOutcome),
    /// A call that reads inside the daemon was permitted and ended.
    Call(RecordedRead),
    /// A call was refused and did not run.
    Refusal(RecordedRefusal),
    /// The mode changed.
    Mode(ModeChange),
    /// The policy, the tools or the settings were reloaded.
    Reload(ReloadEntry),
    /// The daemon started.
    Start(DaemonStart),
    /// The daemon shut down cleanly.
    Stop(DaemonStop),
    /// A worker session was opened or closed.
    Session(SessionEntry),
    /// An approval was requested, decided, used or expired.
    Approval(ApprovalEventEntry),
    /// An undo state was saved or restored.
    Undo(UndoEntry),
    /// Any other event worth recording.
    Note(NoteEntry),
    /// State carried over from earlier segments; the first line of each segment. Written by the ledger
    /// itself.
    Checkpoint(Checkpoint),
    /// Findings of a start. Written by the ledger itself.
    Recovered(RecoveryEntry),
    /// The ledger continues in a new segment after an error. Written by the ledger itself.
    Resumed(ResumptionEntry),
    /// Old segments were removed. Written by the ledger itself.
    Retention(RetentionEntry),
    /// Kind written by a later version.
    #[serde(other)]
    Other,
}

impl LedgerEntry {
    /// Values of the `kind` field that this version writes.
    pub const KINDS: [&'static str; 16] = [
        "decision",
        "outcome",
        "call",
        "refusal",
        "mode",
        "reload",
        "start",
        "stop",
        "session",
        "approval",
        "undo",
        "note",
        "checkpoint",
        "recovered",
        "resumed",
        "retention",
    ];

    /// Returns the value of the `kind` field of the line.
    pub fn kind(&self) -> &'static str {
        match self {
            LedgerEntry::Decision(_) => "decision",
            LedgerEntry::Outcome(_) => "outcome",
            LedgerEntry::Call(_) => "call",
            LedgerEntry::Refusal(_) => "refusal",
            LedgerEntry::Mode(_) => "mode",
            LedgerEntry::Reload(_) => "reload",
            LedgerEntry::Start(_) => "start",
            LedgerEntry::Stop(_) => "stop",
            LedgerEntry::Session(_) => "session",
            LedgerEntry::Approval(_) => "approval",
            LedgerEntry::Undo(_) => "undo",
            LedgerEntry::Note(_) => "note",
            LedgerEntry::Checkpoint(_) => "checkpoint",
            LedgerEntry::Recovered(_) => "recovered",
            LedgerEntry::Resumed(_) => "resumed",
            LedgerEntry::Retention(_) => "retention",
            LedgerEntry::Other => "other",
        }
    }

    /// Returns the decision that the entry records, alone or together with the outcome.
    pub fn decision(&self) -> Option<&RecordedDecision> {
        match self {
            LedgerEntry::Decision(decision) => Some(decision),
            LedgerEntry::Call(call) => Some(&call.decision),
            _ => None,
        }
    }

    /// Returns the outcome that the entry records, alone or together with the decision.
    pub fn outcome(&self) -> Option<(&Arc<CallHeader>, &LedgerOutcome)> {
        match self {
            LedgerEntry::Outcome(concluded) => Some((&concluded.call, &concluded.outcome)),
            LedgerEntry::Call(call) => Some((&call.decision.call, &call.outcome)),
            _ => None,
        }
    }
}
