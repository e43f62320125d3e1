//! Reading of whole records byte for byte, from one sequence number on, for a copy of the ledger elsewhere. Checks
//! the form and the order of the lines, and no seal: the copy is checked by comparing seals.

use std::{io, path::Path, path::PathBuf};

use crate::{
    LedgerError, line,
    lines::SegmentLines,
    segment::{self, Segment},
};

/// Consecutive records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecords {
    /// Sequence number of the first.
    pub first: u64,
    /// Sequence number of the last.
    pub last: u64,
    /// Seal of the record before the first, as the first contains it.
    pub previous: String,
    /// Seal of the last.
    pub hash: String,
    /// Lines with their newlines.
    pub bytes: Vec<u8>,
}

/// Reader that goes on where it ended, so that following a ledger reads each byte once. All its methods are blocking.
#[derive(Debug)]
pub struct RawRecordReader {
    folder: PathBuf,
    /// Segment and offset of the next record, with its sequence number.
    position: Option<(Segment, u64, u64)>,
}

impl RawRecordReader {
    /// Creates a reader of the ledger in `folder`.
    pub fn new(folder: &Path) -> RawRecordReader {
        RawRecordReader { folder: folder.to_owned(), position: None }
    }

    /// Reads records from `from` to `up_to` at most, until they have `max_bytes`; at least one. Returns `None` if there
    /// is none. If retention has removed record `from`, the first one that is left is the first of the result.
    pub fn read(
        &mut self,
        from: u64,
        up_to: u64,
        max_bytes: usize,
    ) -> Result<Option<RawRecords>, LedgerError> {
        let mut found: Option<RawRecords> = None;
        let (mut segment, mut offset) = match self.position.take() {
            Some((segment, offset, next)) if next == from && segment.path.exists() => (segment, offset),
            _ => match self.segment_of(from)? {
                Some(segment) => (segment, 0),
                None => return Ok(None),
            },
        };
        loop {
            let stopped = read_segment(&segment, offset, (from, up_to, max_bytes), &mut found)?;
            let (end, is_whole) = match stopped {
                Stop::EndOfSegment(end) => (end, true),
                Stop::Limit(end) => (end, false),
            };
            let following =
                segment::list(&self.folder)?.into_iter().find(|other| other.first > segment.first);
            match following {
                Some(following) if is_whole => (segment, offset) = (following, 0),
                _ => {
                    let next = found.as_ref().map_or(from, |found| found.last + 1);
                    self.position = Some((segment, end, next));
                    return Ok(found);
                }
            }
        }
    }

    /// Returns the seal of a record, if the ledger still has it.
    pub fn seal(&self, seq: u64) -> Result<Option<String>, LedgerError> {
        let mut reader = RawRecordReader::new(&self.folder);
        let found = reader.read(seq, seq, 1)?;
        Ok(found.filter(|found| found.first == seq).map(|found| found.hash))
    }

    /// Returns the segment that contains a record, or the oldest one if the record was removed.
    fn segment_of(&self, seq: u64) -> Result<Option<Segment>, LedgerError> {
        let segments = segment::list(&self.folder)?;
        let last = segments.iter().rposition(|segment| segment.first <= seq).unwrap_or(0);
        Ok(segments.into_iter().nth(last))
    }
}

/// Reason why reading a segment ended, with the offset of the first line that was not taken.
enum Stop {
    EndOfSegment(u64),
    /// The next record is beyond a limit, or does not follow.
    Limit(u64),
}

/// Appends records of one segment.
fn read_segment(
    segment: &Segment,
    offset: u64,
    (from, up_to, max_bytes): (u64, u64, usize),
    found: &mut Option<RawRecords>,
) -> Result<Stop, LedgerError> {
    let failed = |error| LedgerError::io("read", &segment.path)(error);
    let mut lines = match SegmentLines::open_at(segment, offset) {
        // Retention removed the segment between listing and opening.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stop::EndOfSegment(offset)),
        opened => opened.map_err(failed)?,
    };
    let mut end = offset;
    while let Some(current) = lines.next_line().map_err(failed)? {
        // An unfinished line belongs to a write in progress.
        let Some(text) = current.without_newline() else { break };
        let length = u64::try_from(current.bytes.len()).unwrap_or_default();
        let Some(parsed) = line::parse_line(text).filter(|parsed| parsed.seq >= from) else {
            end += length;
            continue;
        };
        let is_full = found.as_ref().is_some_and(|found| found.bytes.len() + current.bytes.len() > max_bytes);
        let is_next = found.as_ref().is_none_or(|found| parsed.seq == found.last + 1);
        if parsed.seq > up_to || is_full || !is_next {
            return Ok(Stop::Limit(end));
        }
        let records = found.get_or_insert_with(|| RawRecords {
            first: parsed.seq,
            last: parsed.seq,
            previous: parsed.prev.to_string(),
            hash: String::new(),
            bytes: Vec::new(),
        });
        (records.last, records.hash) = (parsed.seq, parsed.hash.to_string());
        records.bytes.extend_from_slice(current.bytes);
        end += length;
    }
    Ok(Stop::EndOfSegment(end))
}
