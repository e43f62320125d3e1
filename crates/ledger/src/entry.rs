//! Entries of the ledger: one type per kind of line. The component that creates an entry redacts its texts
//! and values; content appears only as a keyed digest.
//!
//! This module does not know how a line is sealed or stored.

mod call;
mod event;
mod housekeeping;

use serde::{Deserialize, Serialize};

pub use call::{Call, Concluded, Decision, Effect, EndFacts, Outcome, Refused, StageTime, Status};
pub use event::{
    Approval, ApprovalEvent, ModeChange, Note, Reload, ReloadResult, Session, SessionEvent, Start, Stop, Undo,
};
pub use housekeeping::{
    Checkpoint, Executed, Missing, MissingCause, Recovered, Removals, Resumed, Retention, Sealed, Torn,
};

/// Content of one line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// A call was permitted and is about to run: the intent.
    Decision(Decision),
    /// A call that had an intent ended.
    Outcome(Concluded),
    /// A call was refused and did not run.
    Refusal(Refused),
    /// The mode changed.
    Mode(ModeChange),
    /// The policy, the tools or the settings were reloaded.
    Reload(Reload),
    /// The daemon started.
    Start(Start),
    /// The daemon shut down cleanly.
    Stop(Stop),
    /// A worker session was opened or closed.
    Session(Session),
    /// An approval was requested, decided, used or expired.
    Approval(Approval),
    /// An undo state was saved or restored.
    Undo(Undo),
    /// Any other event worth recording.
    Note(Note),
    /// State carried over from earlier segments; the first line of each segment. Written by the ledger
    /// itself.
    Checkpoint(Checkpoint),
    /// Findings of a start. Written by the ledger itself.
    Recovered(Recovered),
    /// The ledger continues in a new segment after an error. Written by the ledger itself.
    Resumed(Resumed),
    /// Old segments were removed. Written by the ledger itself.
    Retention(Retention),
    /// Kind written by a later version.
    #[serde(other)]
    Other,
}

impl Entry {
    /// Returns the value of the `kind` field of the line.
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::Decision(_) => "decision",
            Entry::Outcome(_) => "outcome",
            Entry::Refusal(_) => "refusal",
            Entry::Mode(_) => "mode",
            Entry::Reload(_) => "reload",
            Entry::Start(_) => "start",
            Entry::Stop(_) => "stop",
            Entry::Session(_) => "session",
            Entry::Approval(_) => "approval",
            Entry::Undo(_) => "undo",
            Entry::Note(_) => "note",
            Entry::Checkpoint(_) => "checkpoint",
            Entry::Recovered(_) => "recovered",
            Entry::Resumed(_) => "resumed",
            Entry::Retention(_) => "retention",
            Entry::Other => "other",
        }
    }
}
