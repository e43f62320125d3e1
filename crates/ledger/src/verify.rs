//! Verification of the ledger: finds every byte that differs from what was written and reports its position.
//! It only reads, and works with or without a running daemon.

use std::{fs::File, io, path::Path};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    LedgerError, LedgerOptions,
    anchor::{Anchor, AnchorFlaw},
    chain_verifier::{ChainVerification, ChainVerifier},
    entry::RemovalTotals,
    key::LedgerKey,
    lines::SegmentLines,
    open, private_file,
    segment::{self, Segment},
};

/// Finding of a verification, with its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyFinding {
    /// File name in the ledger's folder, or the path of an anchor stored elsewhere.
    pub file: String,
    /// Line number, starting at 1.
    pub line: Option<u64>,
    /// Byte offset of the start of the line.
    pub offset: Option<u64>,
    /// Sequence number of the record.
    pub seq: Option<u64>,
    /// Description of the finding.
    pub what: String,
}

impl std::fmt::Display for VerifyFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        if let (Some(line), Some(offset)) = (self.line, self.offset) {
            write!(f, ", line {line}, byte {offset}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Number of checked records.
    pub records: u64,
    /// First sequence number; 0 if there is no record.
    pub first: u64,
    /// Last sequence number.
    pub head: u64,
    /// Number of segments.
    pub segments: u64,
    /// Bytes of the segment files.
    pub bytes: u64,
    /// Time of the oldest record.
    pub oldest: Option<Timestamp>,
    /// Segments that retention has removed since the ledger was created, according to the remaining records.
    pub removed: RemovalTotals,
    /// First hundred differences from what was written.
    pub problems: Vec<VerifyFinding>,
    /// Events that the ledger itself records and explains: torn ends after a crash, disk errors, retention.
    pub notices: Vec<VerifyFinding>,
}

impl VerifyReport {
    /// Returns true if no problem was found.
    pub fn is_intact(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Number of attempts before a problem is reported while a writer is active: a rotation, a retention pass or
/// an unfinished line can look like a problem for a moment.
const MAX_ATTEMPTS: u32 = 3;
/// Number of attempts during which old segments were removed. They do not count as attempts: the writer
/// removed segments that the attempt had listed, or recorded the removal in a segment that it had not.
const MAX_INTERRUPTED_ATTEMPTS: u32 = 100;

/// Verifies every byte. `options` locates the key and the second anchor.
pub fn verify(folder: &Path, options: &LedgerOptions) -> Result<VerifyReport, LedgerError> {
    verify_with_progress(folder, options, &mut |_, _| {})
}

/// Like `verify`, and passes the number of verified segments and of all segments to `on_progress`.
pub fn verify_with_progress(
    folder: &Path,
    options: &LedgerOptions,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport, LedgerError> {
    let (mut attempts, mut interrupted) = (0, 0);
    loop {
        let first = first_segment(folder)?;
        let report = verify_once(folder, options, on_progress)?;
        match first_segment(folder)? == first {
            true => attempts += 1,
            false => interrupted += 1,
        }
        let is_final = attempts == MAX_ATTEMPTS || interrupted == MAX_INTERRUPTED_ATTEMPTS;
        if report.is_intact() || is_final || !has_writer(folder) {
            return Ok(report);
        }
    }
}

/// Returns the number of the first record of the oldest segment.
fn first_segment(folder: &Path) -> Result<Option<u64>, LedgerError> {
    Ok(segment::list_all(folder)?.segments.first().map(|segment| segment.first))
}

fn verify_once(
    folder: &Path,
    options: &LedgerOptions,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<VerifyReport, LedgerError> {
    let listed = segment::list_all(folder)?;
    let key = match LedgerKey::load(&open::key_path(folder, options)) {
        // No record was ever written here.
        Err(LedgerError::KeyMissing { .. }) if listed.is_empty() && !open::anchor_path(folder).exists() => {
            return Ok(VerifyReport::default());
        }
        loaded => loaded?,
    };
    // Anchors are read before the segments, because a writer only adds to what an anchor counts.
    let mut anchors = vec![("anchor".to_owned(), Anchor::read(&open::anchor_path(folder), &key))];
    if let Some(path) = &options.second_anchor {
        anchors.push((path.display().to_string(), Anchor::read(path, &key)));
    }
    let listed = segment::list_all(folder)?;
    let mut verifier = ChainVerifier::new(
        &key,
        anchors.iter().filter_map(|(_, anchor)| anchor.as_ref().ok()).map(|a| a.seq),
    );
    for strange in &listed.unexpected_names {
        verifier.add_file_problem(strange, "this is not the name of a segment");
    }
    for (done, segment) in (0..).zip(&listed.segments) {
        on_progress(done, listed.segments.len() as u64);
        if let Err(error) = verify_segment(&mut verifier, segment) {
            verifier.add_file_problem(&segment.name(), &format!("cannot be read: {error}"));
        }
    }
    let mut verification = verifier.finish();
    for (file, anchor) in anchors {
        check_anchor(&mut verification, file, anchor.as_ref());
    }
    Ok(verification.report)
}

fn verify_segment(verifier: &mut ChainVerifier<'_>, segment: &Segment) -> io::Result<()> {
    let mut lines = SegmentLines::open(segment)?;
    verifier.enter_segment(segment);
    while let Some(line) = lines.next_line()? {
        verifier.check_line(&line);
    }
    Ok(())
}

fn check_anchor(verification: &mut ChainVerification, file: String, anchor: Result<&Anchor, &AnchorFlaw>) {
    let ChainVerification { report, requested_seals, highest_accounted } = verification;
    let what = match anchor {
        Err(AnchorFlaw::Missing) if report.records == 0 => return,
        Err(AnchorFlaw::Missing) => {
            "the anchor is missing: a truncated ledger could not be detected".to_owned()
        }
        Err(AnchorFlaw::Changed) => "the anchor was changed".to_owned(),
        Ok(anchor) if anchor.seq > *highest_accounted => {
            let (from, to) = (*highest_accounted + 1, anchor.seq);
            format!("records {from} to {to} are missing: the end was cut off, or the folder is an old copy")
        }
        Ok(anchor) => match requested_seals.iter().find(|(seq, _)| *seq == anchor.seq) {
            Some((_, hash)) if anchor.hash != *hash => {
                format!("record {} is not the one that was anchored", anchor.seq)
            }
            _ => return,
        },
    };
    report.problems.push(VerifyFinding { file, line: None, offset: None, seq: None, what });
}

/// Returns true if a process has the writer's lock.
fn has_writer(folder: &Path) -> bool {
    let locked = |file: File| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock));
    private_file::open_to_read(&open::lock_path(folder)).is_ok_and(locked)
}
