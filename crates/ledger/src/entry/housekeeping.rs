//! Entries that the ledger writes about itself: checkpoints, findings of a start, resumption after an error,
//! and removal of old segments.

use serde::{Deserialize, Serialize};
use tool::Mode;

use super::{ApprovalEventEntry, CallHeader};

/// State at the start of a segment, complete enough to recover from this segment alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Current mode; absent before the first change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Calls that have an intent and no outcome yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<CallHeader>,
    /// Runs of the last hour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executed: Vec<ExecutionCounts>,
    /// Events of approvals that are still open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalEventEntry>,
    /// Segments that retention has removed so far.
    #[serde(default, skip_serializing_if = "RemovalTotals::is_empty")]
    pub removed: RemovalTotals,
}

/// Number of runs of one tool in one mode, in slots of ten seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionCounts {
    /// Name of the tool.
    pub tool: String,
    /// Mode in which it ran.
    pub mode: Mode,
    /// End of each slot in seconds since 1970, and the number of calls in it.
    pub slots: Vec<(i64, u32)>,
}

/// Findings and repairs of a start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecoveryEntry {
    /// The previous writer did not close the ledger.
    pub crashed: bool,
    /// Bytes after the last complete record, which were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torn: Vec<TornBytes>,
    /// Records that an anchor counts and no segment contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingRecords>,
    /// Descriptions of further damage, with its position. It is left in place for `verify` to report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// Read-only calls that were answered while the ledger was unavailable, and whose records were lost with
    /// that daemon.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unrecorded_reads: u64,
    /// Calls that were running and are now marked `unknown`.
    pub interrupted: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires this signature
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Bytes that were removed from the end of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornBytes {
    /// File name of the segment.
    pub segment: String,
    /// Offset of the first removed byte.
    pub offset: u64,
    /// Number of removed bytes.
    pub bytes: u64,
    /// SHA-256 of the removed bytes.
    pub sha256: String,
    /// File with a copy of the bytes, if they were more than one unfinished line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_as: Option<String>,
}

/// Range of missing records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingRecords {
    /// First missing sequence number.
    pub from: u64,
    /// Last missing sequence number.
    pub to: u64,
    /// Cause of the loss.
    pub cause: MissingCause,
}

/// Cause of missing records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingCause {
    /// The records were not synced and the machine went down, so a power failure explains the loss.
    PowerFailure,
    /// The records were synced, or the machine did not go down: they were removed, or the disk lost them.
    Removed,
}

/// Resumption of the ledger after a halt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResumptionEntry {
    /// Reason for the halt.
    pub reason: String,
    /// Time of the halt.
    pub since: jiff::Timestamp,
    /// Abandoned segment.
    pub sealed: AbandonedSegment,
    /// Number of entries rejected meanwhile; their callers received an error.
    #[serde(alias = "turned_away")]
    pub rejected: u64,
    /// Number of written records that the error lost.
    pub lost: u64,
}

/// Segment that accepts no more lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbandonedSegment {
    /// File name of the segment.
    pub segment: String,
    /// Bytes of the file that are records; the rest is from a failed write.
    pub bytes: u64,
    /// Last record known to be on disk.
    pub synced: u64,
    /// Last record that was written.
    pub written: u64,
}

/// Removal of old segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionEntry {
    /// First retained sequence number.
    pub first: u64,
    /// Seal of the last removed record.
    pub base: String,
    /// Number of removed segments.
    pub segments: u64,
    /// Bytes of the removed segments.
    pub bytes: u64,
    /// Removed segments that contained records younger than the minimum age: the size limit forced their
    /// removal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub under_pressure: u64,
    /// All removals since the ledger was created, including this one.
    #[serde(default, skip_serializing_if = "RemovalTotals::is_empty")]
    pub total: RemovalTotals,
}

/// Totals of all segments that retention has removed. Each checkpoint carries them, so that they survive the
/// removal of the retention entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalTotals {
    /// Number of removed segments.
    pub segments: u64,
    /// Bytes of the removed segments.
    pub bytes: u64,
    /// Removed segments that contained records younger than the minimum age.
    pub under_pressure: u64,
    /// Time of the last removal under pressure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_under_pressure: Option<jiff::Timestamp>,
}

impl RemovalTotals {
    /// Returns true if nothing was removed.
    pub fn is_empty(&self) -> bool {
        *self == RemovalTotals::default()
    }
}
