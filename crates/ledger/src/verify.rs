//! Finding any byte of the record that is not as it was written, and saying where. Reads only; works on a folder
//! without a daemon and beside one.

use std::{fs::File, io, path::Path};

use serde::Serialize;

use crate::{
    LedgerError, Options,
    anchor::{Anchor, AnchorFlaw, WriterState},
    key::Key,
    lines::Lines,
    open, private_file,
    room::Amount,
    segment::{self, Segment},
    walk::{Walk, Walked},
};

/// Something about the record that somebody should know, and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file's name in the ledger's folder, or the path of an anchor kept elsewhere.
    pub file: String,
    /// The line, 1-based.
    pub line: Option<u64>,
    /// Where the line begins, in bytes.
    pub offset: Option<u64>,
    /// The number of the record.
    pub seq: Option<u64>,
    /// What it is.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        if let (Some(line), Some(offset)) = (self.line, self.offset) {
            write!(f, ", line {line}, byte {offset}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// How many records were checked.
    pub records: u64,
    /// The number of the first; 0 where there is none.
    pub first: u64,
    /// The number of the last.
    pub head: u64,
    /// How many segments.
    pub segments: u64,
    /// How many bytes their files have, with the room behind the records.
    pub bytes: u64,
    /// What is not as it was written. The first hundred.
    pub problems: Vec<Finding>,
    /// What the record itself declares and explains: torn ends after a crash, errors of the disk, retention.
    pub notices: Vec<Finding>,
}

impl VerifyReport {
    /// Whether everything is as it was written.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

/// How often a record that is being written is looked at again before a problem is believed: a rotation, a retention,
/// a line or room under way can look like one for a moment.
const LOOKS: u32 = 3;

/// Checks every byte. The key and the second anchor are found through `options`.
pub fn verify(folder: &Path, options: &Options) -> Result<VerifyReport, LedgerError> {
    let mut report = look(folder, options)?;
    for _ in 1..LOOKS {
        if report.is_intact() || !is_being_written(folder) {
            break;
        }
        report = look(folder, options)?;
    }
    Ok(report)
}

fn look(folder: &Path, options: &Options) -> Result<VerifyReport, LedgerError> {
    let listed = segment::list_all(folder)?;
    let key = match Key::load(&open::key_path(folder, options)) {
        // Nothing was ever written here.
        Err(LedgerError::KeyMissing { .. }) if listed.is_empty() && !open::anchor_path(folder).exists() => {
            return Ok(VerifyReport::default());
        }
        loaded => loaded?,
    };
    // Before the segments: a writer only ever adds to what an anchor counts.
    let mut anchors = vec![("anchor".to_owned(), Anchor::read(&open::anchor_path(folder), &key))];
    if let Some(path) = &options.witness {
        anchors.push((path.display().to_string(), Anchor::read(path, &key)));
    }
    let listed = segment::list_all(folder)?;
    let mut walk =
        Walk::new(&key, anchors.iter().filter_map(|(_, anchor)| anchor.as_ref().ok()).map(|a| a.seq));
    for strange in &listed.strange {
        walk.problem(strange, "this is not the name of a segment");
    }
    for segment in &listed.segments {
        if let Err(error) = read(&mut walk, segment) {
            walk.problem(&segment.name(), &format!("cannot be read: {error}"));
        }
    }
    let mut walked = walk.finish();
    let closed =
        anchors.iter().flat_map(|(_, anchor)| anchor).any(|anchor| is_closed_at(anchor, walked.report.head));
    match walked.room.take() {
        // Whoever closed it took the room off.
        Some(room) if closed => walked.report.problems.push(room.finding),
        Some(room) if room.amount == Amount::Begun => walked.report.notices.push(room.finding),
        Some(_) | None => {}
    }
    for (file, anchor) in anchors {
        check_anchor(&mut walked, file, anchor.as_ref());
    }
    Ok(walked.report)
}

fn is_closed_at(anchor: &Anchor, head: u64) -> bool {
    anchor.writer == WriterState::Closed && anchor.seq == head
}

fn read(walk: &mut Walk<'_>, segment: &Segment) -> io::Result<()> {
    let mut lines = Lines::open(segment)?;
    walk.enter(segment);
    while let Some(line) = lines.next_line()? {
        walk.line(&line);
    }
    walk.leave(lines.extent(), lines.number());
    Ok(())
}

fn check_anchor(walked: &mut Walked, file: String, anchor: Result<&Anchor, &AnchorFlaw>) {
    let Walked { report, marks, reach, .. } = walked;
    let what = match anchor {
        Err(AnchorFlaw::Missing) if report.records == 0 => return,
        Err(AnchorFlaw::Missing) => "the anchor is missing: a cut end could not be seen".to_owned(),
        Err(AnchorFlaw::Changed) => "the anchor was changed".to_owned(),
        Ok(anchor) if anchor.seq > *reach => {
            let (from, to) = (*reach + 1, anchor.seq);
            format!("records {from} to {to} are missing: the end was cut off, or the folder is an old copy")
        }
        Ok(anchor) => match marks.iter().find(|(seq, _)| *seq == anchor.seq) {
            Some((_, hash)) if anchor.hash != *hash => {
                format!("record {} is not the one that was anchored", anchor.seq)
            }
            _ => return,
        },
    };
    report.problems.push(Finding { file, line: None, offset: None, seq: None, what });
}

/// Whether somebody holds the writer's lock.
fn is_being_written(folder: &Path) -> bool {
    let locked = |file: File| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock));
    private_file::open_to_read(&open::lock_path(folder)).is_ok_and(locked)
}
