//! Segments: the files that make up the ledger, named by their first sequence number.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    LedgerError,
    chain::ChainPosition,
    disk::{self, LedgerDisk},
    key::LedgerKey,
    line::EntryBody,
};

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".ndjson";

/// Segment on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
}

impl Segment {
    pub(crate) fn new(folder: &Path, first: u64) -> Segment {
        Segment { first, path: folder.join(file_name(first)) }
    }

    /// Returns the file name.
    pub(crate) fn name(&self) -> String {
        file_name(self.first)
    }
}

/// Returns the file name of a segment. The number is zero-padded, so that `ls` and `cat segment-*` list segments in order.
fn file_name(first: u64) -> String {
    format!("{PREFIX}{first:012}{SUFFIX}")
}

/// Lists the segments of a folder in order. A file whose name only resembles a segment name is an error.
pub(crate) fn list(folder: &Path) -> Result<Vec<Segment>, LedgerError> {
    let listed = list_all(folder)?;
    match listed.unexpected_names.first() {
        Some(name) => Err(LedgerError::UnexpectedFile { path: folder.join(name) }),
        None => Ok(listed.segments),
    }
}

/// Content of a ledger folder.
pub(crate) struct SegmentListing {
    /// Segments in order.
    pub(crate) segments: Vec<Segment>,
    /// Names that start like a segment name but are not one.
    pub(crate) unexpected_names: Vec<String>,
}

impl SegmentListing {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.unexpected_names.is_empty()
    }
}

pub(crate) fn list_all(folder: &Path) -> Result<SegmentListing, LedgerError> {
    let failed = |error| LedgerError::io("list", folder)(error);
    let mut listed = SegmentListing { segments: Vec::new(), unexpected_names: Vec::new() };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let file = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        let Some(number) = file.strip_prefix(PREFIX) else { continue };
        let first = number.strip_suffix(SUFFIX).and_then(|digits| digits.parse().ok());
        match first.filter(|first| file_name(*first) == file) {
            Some(first) => listed.segments.push(Segment::new(folder, first)),
            None => listed.unexpected_names.push(file),
        }
    }
    listed.segments.sort_by_key(|segment| segment.first);
    Ok(listed)
}

/// Segment that is being written.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: Segment,
    pub(crate) file: Arc<File>,
    /// Length of the file, all of it records.
    pub(crate) length: u64,
}

impl OpenSegment {
    /// Appends complete lines.
    pub(crate) fn write(&mut self, disk: &dyn LedgerDisk, lines: &[u8]) -> io::Result<()> {
        disk::write_all(disk, &self.file, lines)?;
        self.length += u64::try_from(lines.len()).unwrap_or_default();
        Ok(())
    }
}

/// Creates the segment that starts at `chain` with these entries. On failure no file is left.
pub(crate) fn create_segment(
    disk: &dyn LedgerDisk,
    folder: &Path,
    chain: ChainPosition,
    key: &LedgerKey,
    entries: impl IntoIterator<Item = EntryBody>,
) -> io::Result<(OpenSegment, ChainPosition)> {
    let segment = Segment::new(folder, chain.next);
    let file = disk.create(&segment.path)?;
    let (mut after, mut lines) = (chain, Vec::new());
    for body in entries {
        let line = body.into_sealed_line(key, after.next, Timestamp::now(), &after.prev);
        lines.extend_from_slice(&line.bytes);
        after.advance(line.hash);
    }
    if let Err(error) = disk::write_all(disk, &file, &lines) {
        // The file is new and contains nothing that was acknowledged.
        let _ = fs::remove_file(&segment.path);
        return Err(error);
    }
    let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    Ok((OpenSegment { segment, file: Arc::new(file), length }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_listed_in_order_and_odd_names_refused() {
        let folder = tempfile::tempdir().unwrap();
        for first in [100, 7, 1_000_000_000_000_000, 1] {
            File::create(Segment::new(folder.path(), first).path).unwrap();
        }
        File::create(folder.path().join("key")).unwrap();
        let firsts: Vec<u64> = list(folder.path()).unwrap().iter().map(|segment| segment.first).collect();
        assert_eq!(firsts, [1, 7, 100, 1_000_000_000_000_000]);
        for strange in ["segment-7.ndjson", "segment-.ndjson", "segment-000000000009.ndjson.bak", "segment-x"]
        {
            let path = folder.path().join(strange);
            File::create(&path).unwrap();
            assert!(matches!(list(folder.path()), Err(LedgerError::UnexpectedFile { .. })), "{strange}");
            fs::remove_file(path).unwrap();
        }
    }
}
