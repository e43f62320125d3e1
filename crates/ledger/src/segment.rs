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
    chain::Chain,
    disk::{self, Disk},
    key::Key,
    line::Body,
    room::{self, Extent},
};

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".ndjson";

/// Segment on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
    /// End of the records according to the writer in this process. Readers ignore bytes that another process
    /// put behind it.
    pub(crate) written: Option<u64>,
}

impl Segment {
    pub(crate) fn new(folder: &Path, first: u64) -> Segment {
        Segment { first, path: folder.join(name(first)), written: None }
    }

    /// Returns the lengths of the records and of the file.
    pub(crate) fn extent(&self, file: &File) -> io::Result<Extent> {
        match self.written {
            Some(records) => Ok(Extent { records, file: file.metadata()?.len().max(records) }),
            None => room::extent(file),
        }
    }

    /// Returns the file name.
    pub(crate) fn name(&self) -> String {
        name(self.first)
    }
}

/// The number is zero-padded, so that `ls`, `cat segment-*` and `grep` list the segments in order.
fn name(first: u64) -> String {
    format!("{PREFIX}{first:012}{SUFFIX}")
}

/// Lists the segments of a folder in order. A file whose name only resembles a segment name is an error.
pub(crate) fn list(folder: &Path) -> Result<Vec<Segment>, LedgerError> {
    let listed = list_all(folder)?;
    match listed.strange.first() {
        Some(name) => Err(LedgerError::StrangeFile { path: folder.join(name) }),
        None => Ok(listed.segments),
    }
}

/// Content of a ledger folder.
pub(crate) struct Listed {
    /// Segments in order.
    pub(crate) segments: Vec<Segment>,
    /// Names that start like a segment name but are not one.
    pub(crate) strange: Vec<String>,
}

impl Listed {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.strange.is_empty()
    }
}

pub(crate) fn list_all(folder: &Path) -> Result<Listed, LedgerError> {
    let failed = |error| LedgerError::io("list", folder)(error);
    let mut listed = Listed { segments: Vec::new(), strange: Vec::new() };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let file = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        let Some(number) = file.strip_prefix(PREFIX) else { continue };
        let first = number.strip_suffix(SUFFIX).and_then(|digits| digits.parse().ok());
        match first.filter(|first| name(*first) == file) {
            Some(first) => listed.segments.push(Segment::new(folder, first)),
            None => listed.strange.push(file),
        }
    }
    listed.segments.sort_by_key(|segment| segment.first);
    Ok(listed)
}

/// Segment that is being written.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Segment,
    pub(crate) file: Arc<File>,
    /// Bytes of the file that are records.
    pub(crate) length: u64,
    /// Length of the file: the end of its records, or of the padding behind them.
    pub(crate) end: u64,
}

impl Active {
    /// Creates the state of a segment whose file ends with its records.
    pub(crate) fn new(segment: Segment, file: File, length: u64) -> Active {
        Active { segment, file: Arc::new(file), length, end: length }
    }

    /// Appends records, and preallocates padding behind them when none is left.
    pub(crate) fn write(&mut self, disk: &dyn Disk, lines: &[u8]) -> io::Result<()> {
        disk::write_all(disk, &self.file, lines, self.length)?;
        self.length += u64::try_from(lines.len()).unwrap_or_default();
        if self.length > self.end {
            self.end = self.length;
            self.make_room(disk);
        }
        Ok(())
    }

    /// Preallocates padding for the next records. On failure the records are written without it: partly
    /// written padding is cut off, and if that fails too, later records overwrite it.
    fn make_room(&mut self, disk: &dyn Disk) {
        let end = room::end_for(self.length);
        match disk.make_room(&self.file, self.length, end) {
            Ok(()) => self.end = end,
            Err(error) => {
                tracing::debug!(%error, segment = self.segment.name(), "no room ahead of the records");
                if self.cut(disk).is_err() {
                    self.end = self.file.metadata().map_or(end, |found| found.len());
                }
            }
        }
    }

    /// Returns true if the padding contains only blank bytes. Only this writer may replace them, with
    /// records.
    pub(crate) fn has_blank_room(&self) -> io::Result<bool> {
        room::is_blank(&self.file, self.length, self.end)
    }

    /// Truncates the file to its records.
    pub(crate) fn cut(&mut self, disk: &dyn Disk) -> io::Result<()> {
        disk.cut(&self.file, self.length)?;
        self.end = self.length;
        Ok(())
    }
}

/// Creates the segment that starts at `chain` with these entries. On failure no file is left.
pub(crate) fn begin(
    disk: &dyn Disk,
    folder: &Path,
    chain: Chain,
    key: &Key,
    entries: impl IntoIterator<Item = Body>,
) -> io::Result<(Active, Chain)> {
    let segment = Segment::new(folder, chain.next);
    let file = disk.create(&segment.path)?;
    let (mut after, mut lines) = (chain, Vec::new());
    for body in entries {
        let line = body.sealed(key, after.next, Timestamp::now(), &after.prev);
        lines.extend_from_slice(line.bytes());
        after.advance(line.hash);
    }
    if let Err(error) = disk::write_all(disk, &file, &lines, 0) {
        // The file is new and contains nothing that was acknowledged.
        let _ = fs::remove_file(&segment.path);
        return Err(error);
    }
    let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    Ok((Active::new(segment, file, length), after))
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
            assert!(matches!(list(folder.path()), Err(LedgerError::StrangeFile { .. })), "{strange}");
            fs::remove_file(path).unwrap();
        }
    }
}
