//! What the record can say. One type per kind of line; every free text and value in them was redacted by whoever
//! made the entry, and contents appear by keyed digest only.
//!
//! Nothing here knows how a line is sealed or stored.

mod call;
mod event;
mod facts;
mod flat;
mod housekeeping;

use serde::{Deserialize, Serialize};

pub use call::{Call, Concluded, Decision, Effect, EndFacts, Outcome, Refused, StageTime, Status};
pub use event::{
    Approval, ApprovalEvent, ModeChange, Note, Reload, ReloadResult, Session, SessionEvent, Start, Stop, Undo,
};
pub use facts::Facts;
pub use housekeeping::{
    Checkpoint, Executed, Missing, MissingCause, Recovered, Resumed, Retention, Sealed, Torn,
};

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// A call was permitted and is about to run: the intent.
    Decision(Decision),
    /// How a call ended that had an intent.
    Outcome(Concluded),
    /// A call was not run.
    Refusal(Refused),
    /// The mode changed.
    Mode(ModeChange),
    /// The policy, the tools or the settings were read again.
    Reload(Reload),
    /// The daemon started.
    Start(Start),
    /// The daemon stopped in good order.
    Stop(Stop),
    /// A worker session was opened or closed.
    Session(Session),
    /// An approval was asked for, decided, used or lapsed.
    Approval(Approval),
    /// Something that can be undone was saved or restored.
    Undo(Undo),
    /// Anything else worth keeping.
    Note(Note),
    /// What a segment must know of those before it; the first line of each. Written by the ledger itself.
    Checkpoint(Checkpoint),
    /// What was found amiss at start. Written by the ledger itself.
    Recovered(Recovered),
    /// The record goes on in a new segment after an error. Written by the ledger itself.
    Resumed(Resumed),
    /// Old segments were let go. Written by the ledger itself.
    Retention(Retention),
    /// A kind that a later version wrote.
    #[serde(other)]
    Other,
}

impl Entry {
    /// The word in the line's `kind`.
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
