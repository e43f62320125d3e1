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
    line::{self, Body},
};

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".ndjson";

/// A segment on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    pub(crate) path: PathBuf,
}

impl Segment {
    pub(crate) fn new(folder: &Path, first: u64) -> Segment {
        Segment { first, path: folder.join(name(first)) }
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

/// The segments of a folder in order.
pub(crate) fn list(folder: &Path) -> Result<Vec<Segment>, LedgerError> {
    let failed = |error| LedgerError::io("list", folder)(error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let file = entry.map_err(failed)?.file_name();
        let Some(text) = file.to_str().filter(|text| text.starts_with(PREFIX)) else { continue };
        let number = text.strip_prefix(PREFIX).and_then(|text| text.strip_suffix(SUFFIX));
        let first = number.and_then(|digits| digits.parse().ok()).filter(|first| name(*first) == text);
        let first = first.ok_or_else(|| LedgerError::StrangeFile { path: folder.join(text) })?;
        found.push(Segment::new(folder, first));
    }
    found.sort_by_key(|segment| segment.first);
    Ok(found)
}

/// The segment that is being written.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Segment,
    pub(crate) file: Arc<File>,
    /// How many of its bytes are records.
    pub(crate) length: u64,
}

/// Creates the segment that begins at `chain` with these entries, all of them or nothing.
pub(crate) fn begin(
    disk: &dyn Disk,
    folder: &Path,
    chain: Chain,
    key: &Key,
    entries: &[Body],
) -> io::Result<(Active, Chain)> {
    let segment = Segment::new(folder, chain.next);
    let file = disk.create(&segment.path)?;
    let (mut after, mut lines) = (chain, Vec::new());
    for body in entries {
        let hash = line::write(&mut lines, key, after.next, Timestamp::now(), body, &after.prev);
        after.advance(hash);
    }
    if let Err(error) = disk::write_all(disk, &file, &lines) {
        // It is ours and holds nothing that was acknowledged.
        let _ = fs::remove_file(&segment.path);
        return Err(error);
    }
    let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    Ok((Active { segment, file: Arc::new(file), length }, after))
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
