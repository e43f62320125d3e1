//! Segments: the files the record is cut into, named by the first record they hold.

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

/// A segment on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
    /// Where its records end, where its writer says so: what somebody else puts behind them is read by nobody.
    pub(crate) written: Option<u64>,
}

impl Segment {
    pub(crate) fn new(folder: &Path, first: u64) -> Segment {
        Segment { first, path: folder.join(name(first)), written: None }
    }

    /// How far its file goes.
    pub(crate) fn extent(&self, file: &File) -> io::Result<Extent> {
        match self.written {
            Some(records) => Ok(Extent { records, file: file.metadata()?.len().max(records) }),
            None => room::extent(file),
        }
    }

    /// Its file name.
    pub(crate) fn name(&self) -> String {
        name(self.first)
    }
}

/// The padding lets `ls`, `cat segment-*` and `grep` see the segments in order.
fn name(first: u64) -> String {
    format!("{PREFIX}{first:012}{SUFFIX}")
}

/// The segments of a folder in order. A file that only looks like one is an error.
pub(crate) fn list(folder: &Path) -> Result<Vec<Segment>, LedgerError> {
    let listed = list_all(folder)?;
    match listed.strange.first() {
        Some(name) => Err(LedgerError::StrangeFile { path: folder.join(name) }),
        None => Ok(listed.segments),
    }
}

/// What is in a folder.
pub(crate) struct Listed {
    /// In order.
    pub(crate) segments: Vec<Segment>,
    /// Names that look like a segment's and are none.
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

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Segment,
    pub(crate) file: Arc<File>,
    /// How many of its bytes are records.
    pub(crate) length: u64,
    /// Where the file ends: with its records, or with the room behind them.
    pub(crate) end: u64,
}

impl Active {
    /// A segment whose file ends with its records.
    pub(crate) fn new(segment: Segment, file: File, length: u64) -> Active {
        Active { segment, file: Arc::new(file), length, end: length }
    }

    /// Writes records behind those that are there, and makes room behind them where there is none left.
    pub(crate) fn write(&mut self, disk: &dyn Disk, lines: &[u8]) -> io::Result<()> {
        disk::write_all(disk, &self.file, lines, self.length)?;
        self.length += u64::try_from(lines.len()).unwrap_or_default();
        if self.length > self.end {
            self.end = self.length;
            self.make_room(disk);
        }
        Ok(())
    }

    /// The next records find room if this succeeds, and do without if it fails: what was begun of it is taken off, and where
    /// even that fails it is written into.
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

    /// Whether the room is as it was made: it is ours, and only records come into it.
    pub(crate) fn has_blank_room(&self) -> io::Result<bool> {
        room::is_blank(&self.file, self.length, self.end)
    }

    /// Takes off whatever is behind the records.
    pub(crate) fn cut(&mut self, disk: &dyn Disk) -> io::Result<()> {
        disk.cut(&self.file, self.length)?;
        self.end = self.length;
        Ok(())
    }
}

/// Creates the segment that begins at `chain` with these entries, all of them or nothing.
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
        // It is ours and holds nothing that was acknowledged.
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
    fn listed_in_order_and_strange_names_refused() {
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
