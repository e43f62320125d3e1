//! The entries that the ledger writes about itself: what a new segment must know, what was found amiss at start,
//! how the record went on after an error, and what was let go.

use serde::{Deserialize, Serialize};
use tool::Mode;

use super::{Approval, Call};

/// The state at the head of a segment: enough to start from this segment alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The mode that holds; absent before the first change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Calls that have an intent and no outcome yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Call>,
    /// What ran in the last hour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executed: Vec<Executed>,
    /// What happened to approvals that are still open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
}

/// How often one tool ran in one mode, in slots of ten seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// The tool.
    pub tool: String,
    /// The mode it ran in.
    pub mode: Mode,
    /// The end of each slot, in seconds since 1970, and the calls in it.
    pub slots: Vec<(i64, u32)>,
}

/// What a start found and did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// The writer before us did not close the ledger.
    pub crashed: bool,
    /// The bytes behind the last whole record, which were taken off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torn: Vec<Torn>,
    /// Records that an anchor counts and no segment holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// What else was wrong, and where; it was left as it is for `verify` to show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// Reads that were answered while no record could be taken, and whose records went with that daemon.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unrecorded_reads: u64,
    /// Calls that were under way and are now marked `unknown`.
    pub interrupted: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Bytes that were taken off the end of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torn {
    /// The segment's file name.
    pub segment: String,
    /// Where they began.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// Their SHA-256.
    pub sha256: String,
    /// Where they were put, if they were more than one unfinished line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_as: Option<String>,
}

/// Records that were there once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The first number that was missing.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// What explains it.
    pub cause: MissingCause,
}

/// Why records can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingCause {
    /// They were never on disk and the machine went down: what a power failure may take.
    PowerFailure,
    /// They were on disk, or the machine did not go down: somebody or a failing disk took them.
    Removed,
}

/// The record goes on after it had to stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Why it stopped.
    pub reason: String,
    /// When.
    pub since: jiff::Timestamp,
    /// The segment that was left, and how many of its bytes are records.
    pub sealed: Sealed,
    /// How many entries were turned away meanwhile; their callers were told.
    pub turned_away: u64,
    /// How many records the error took although they had been written.
    pub lost: u64,
}

/// A segment that takes no more lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Its file name.
    pub segment: String,
    /// How many bytes of it are records; what follows is the rest of a write that failed.
    pub bytes: u64,
    /// The last record known to be on disk.
    pub synced: u64,
    /// The last record that was written.
    pub written: u64,
}

/// Old segments that were let go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The first record that is kept.
    pub first: u64,
    /// The seal of the last record that was let go.
    pub base: String,
    /// How many segments went.
    pub segments: u64,
    /// How many bytes they had.
    pub bytes: u64,
}
