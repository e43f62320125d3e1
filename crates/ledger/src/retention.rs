//! Which old segments may go. Whole segments only, oldest first, never the one being written; an entry in the chain
//! says what went and what the rest begins with, so that the rest can still be verified.

use std::{fs, path::Path, path::PathBuf};

use jiff::Timestamp;

use crate::{
    LedgerError, Options,
    entry::Retention,
    line,
    lines::Lines,
    private_file,
    record::time_of,
    segment::{self, Active, Segment},
};

/// What goes, and what is recorded about it before it does.
pub(crate) struct Plan {
    pub(crate) entry: Retention,
    folder: PathBuf,
    going: Vec<Segment>,
}

/// The segment that is being written: its first record, and how many bytes its records have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    pub(crate) first: u64,
    pub(crate) length: u64,
}

/// Decides; nothing is removed yet. Room is not counted: it goes with the end of its segment.
pub(crate) fn plan(
    folder: &Path,
    open: Open,
    options: &Options,
    now: Timestamp,
) -> Result<Option<Plan>, LedgerError> {
    let segments = segment::list(folder)?;
    let size = |segment: &Segment| {
        if segment.first == open.first {
            return open.length;
        }
        fs::metadata(&segment.path).map_or(0, |found| found.len())
    };
    let mut total: u64 = segments.iter().map(size).sum();
    let (mut going, mut bytes, mut kept) = (Vec::new(), 0, None);
    for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
        let begins = head(next)?;
        let too_much = options.keep_bytes.is_some_and(|most| total > most);
        let too_old = match (options.keep_for, begins.time) {
            (Some(keep), Some(time)) => now.duration_since(time).unsigned_abs() > keep && time < now,
            _ => false,
        };
        if segment.first >= open.first || !(too_much || too_old) {
            break;
        }
        total -= size(segment);
        bytes += size(segment);
        going.push(segment.clone());
        kept = Some((next.first, begins.base));
    }
    Ok(kept.map(|(first, base)| Plan {
        entry: Retention { first, base, segments: u64::try_from(going.len()).unwrap_or_default(), bytes },
        folder: folder.to_owned(),
        going,
    }))
}

/// Whether the open segment has lasted an eighth of what records are kept: only whole segments go, so one that is never
/// full would otherwise keep its records for ever.
pub(crate) fn is_due_a_successor(active: &Active, options: &Options, now: Timestamp) -> bool {
    let Some(keep) = options.keep_for else { return false };
    let begun = head(&active.segment).ok().and_then(|head| head.time);
    begun.is_some_and(|begun| begun < now && now.duration_since(begun).unsigned_abs() > keep / 8)
}

impl Plan {
    /// Removes the files.
    pub(crate) fn carry_out(&self) {
        for segment in &self.going {
            if let Err(error) = fs::remove_file(&segment.path) {
                tracing::warn!(%error, segment = segment.name(), "cannot remove an old ledger segment");
            }
        }
        if let Err(error) = private_file::sync_folder(&self.folder) {
            tracing::warn!(%error, "cannot make the removal of old ledger segments durable");
        }
    }
}

/// How a segment begins.
struct Head {
    /// The time of its first record: no record of the segment before it is much younger.
    time: Option<Timestamp>,
    /// The seal of the last record before it.
    base: String,
}

fn head(segment: &Segment) -> Result<Head, LedgerError> {
    let failed = |error| LedgerError::io("read", &segment.path)(error);
    let mut lines = Lines::open(segment).map_err(failed)?;
    let first = lines.next_line().map_err(failed)?;
    let text = first.and_then(|line| line.whole()).unwrap_or_default();
    let base = line::parts(text).map(|parts| parts.prev.to_string()).unwrap_or_default();
    Ok(Head { time: time_of(text), base })
}
