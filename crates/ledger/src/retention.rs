//! Selection of old segments for removal. Only whole segments are removed, oldest first, never the open one.
//! A retention entry in the chain records what was removed and where the rest starts, so that the rest can
//! still be verified.

use std::{fs, path::Path, path::PathBuf, time::Duration};

use jiff::Timestamp;

use crate::{
    LedgerError, LedgerOptions,
    entry::{RemovalTotals, RetentionEntry},
    line,
    lines::SegmentLines,
    private_file,
    record::parse_time,
    segment::{self, OpenSegment, Segment},
};

/// Segments to remove, and the entry that records the removal beforehand.
pub(crate) struct RetentionPlan {
    pub(crate) entry: RetentionEntry,
    folder: PathBuf,
    segments_to_remove: Vec<Segment>,
}

/// Open segment: its first sequence number, and the bytes of its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSegmentSize {
    pub(crate) first: u64,
    pub(crate) length: u64,
}

/// Result of a scan of all segments.
pub(crate) struct RetentionSurvey {
    /// Bytes of all remaining segments except the open one.
    pub(crate) older_bytes: u64,
    /// Segments to remove, if there are any.
    pub(crate) plan: Option<RetentionPlan>,
}

/// Selects the segments to remove, without removing them.
pub(crate) fn survey(
    folder: &Path,
    open: OpenSegmentSize,
    options: &LedgerOptions,
    before: RemovalTotals,
    now: Timestamp,
) -> Result<RetentionSurvey, LedgerError> {
    let segments = segment::list(folder)?;
    let size = |segment: &Segment| {
        if segment.first == open.first {
            return open.length;
        }
        fs::metadata(&segment.path).map_or(0, |found| found.len())
    };
    let mut total: u64 = segments.iter().map(size).sum();
    let (mut segments_to_remove, mut bytes, mut under_pressure, mut kept) = (Vec::new(), 0, 0, None);
    for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
        if segment.first >= open.first {
            break;
        }
        let begins = read_head(next)?;
        match judge_segment(total, begins.time, options, now) {
            RetentionVerdict::Retain => break,
            RetentionVerdict::Expired => {}
            RetentionVerdict::ForcedBySize => under_pressure += 1,
        }
        total -= size(segment);
        bytes += size(segment);
        segments_to_remove.push(segment.clone());
        kept = Some((next.first, begins.base));
    }
    let plan = kept.map(|(first, base)| {
        let segments = u64::try_from(segments_to_remove.len()).unwrap_or_default();
        let total = RemovalTotals {
            segments: before.segments + segments,
            bytes: before.bytes + bytes,
            under_pressure: before.under_pressure + under_pressure,
            last_under_pressure: (under_pressure > 0).then_some(now).or(before.last_under_pressure),
        };
        let entry = RetentionEntry { first, base, segments, bytes, under_pressure, total };
        RetentionPlan { entry, folder: folder.to_owned(), segments_to_remove }
    });
    Ok(RetentionSurvey { older_bytes: total.saturating_sub(open.length), plan })
}

/// Result of the retention rules for the oldest segment.
enum RetentionVerdict {
    Retain,
    /// The records are old enough to be removed.
    Expired,
    /// Some records are too young, but the size limit is exceeded.
    ForcedBySize,
}

/// Applies the retention rules to the oldest segment. `newest` is the time of the first record after it; no
/// record of the segment is much younger.
fn judge_segment(
    total: u64,
    newest: Option<Timestamp>,
    options: &LedgerOptions,
    now: Timestamp,
) -> RetentionVerdict {
    let exceeds = |limit: Option<u64>| limit.is_some_and(|most| total > most);
    // A record with a future time does not count as old, so that setting the clock cannot erase records.
    let is_older = |age: Duration| {
        newest.is_some_and(|time| time < now && now.duration_since(time).unsigned_abs() > age)
    };
    let too_young = options.minimum_age.is_some_and(|least| !is_older(least));
    let wanted = exceeds(options.retain_bytes) || options.retain_for.is_some_and(is_older);
    match (too_young, wanted || exceeds(options.max_bytes)) {
        (_, false) => RetentionVerdict::Retain,
        (false, true) => RetentionVerdict::Expired,
        (true, true) if exceeds(options.max_bytes) => RetentionVerdict::ForcedBySize,
        (true, true) => RetentionVerdict::Retain,
    }
}

/// Returns true if the open segment has lasted an eighth of the retention time. Only whole segments are
/// removed, so a segment that never fills up would otherwise keep its records forever.
pub(crate) fn should_rotate_by_age(active: &OpenSegment, options: &LedgerOptions, now: Timestamp) -> bool {
    let Some(keep) = options.retain_for else { return false };
    let begun = read_head(&active.segment).ok().and_then(|head| head.time);
    begun.is_some_and(|begun| begun < now && now.duration_since(begun).unsigned_abs() > keep / 8)
}

impl RetentionPlan {
    /// Removes the files.
    pub(crate) fn execute(&self) {
        for segment in &self.segments_to_remove {
            if let Err(error) = fs::remove_file(&segment.path) {
                tracing::warn!(%error, segment = segment.name(), "cannot remove an old ledger segment");
            }
        }
        if let Err(error) = private_file::sync_folder(&self.folder) {
            tracing::warn!(%error, "cannot make the removal of old ledger segments durable");
        }
    }
}

/// Start of a segment.
struct SegmentHead {
    /// Time of the first record: no record of the previous segment is much younger.
    time: Option<Timestamp>,
    /// Seal of the last record before the segment.
    base: String,
}

fn read_head(segment: &Segment) -> Result<SegmentHead, LedgerError> {
    let failed = |error| LedgerError::io("read", &segment.path)(error);
    let mut lines = SegmentLines::open(segment).map_err(failed)?;
    let first = lines.next_line().map_err(failed)?;
    let text = first.and_then(|line| line.without_newline()).unwrap_or_default();
    let base = line::parse_line(text).map(|parts| parts.prev.to_string()).unwrap_or_default();
    Ok(SegmentHead { time: parse_time(text), base })
}
