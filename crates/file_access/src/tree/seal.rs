//! Digest of an entry and everything below it, to detect later changes: names, kinds, permissions and
//! contents.
//!
//! Only a limited part of a tree is read. For the rest, and for files that may not be read, the inode, the
//! size and the times replace the content. A single file is read as a whole, because renaming it changes its
//! `ctime`. If a file cannot be read because of a temporary error, there is no seal.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::FileType;
use sha2::{Digest, Sha256};

use super::{VisitAction, open_file, open_folder, walk_tree};
use crate::list::EntryKind;
use crate::opened::ObjectFacts;
use crate::platform;
use crate::read::FileReader;

/// Maximum number of bytes read of a tree. Reading more takes too long for a removal.
const MAX_TREE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of bytes read of a single file: the default undo quota.
const MAX_FILE_BYTES: u64 = 1024 * 1024 * 1024;

struct TreeSealer {
    hasher: Sha256,
    /// Number of bytes that may still be read.
    bytes_left: u64,
    /// Error because of which there is no seal.
    error: Option<io::Error>,
}

/// Returns the digest of an entry of a folder.
pub(crate) fn seal(folder: &OwnedFd, name: &OsStr) -> io::Result<String> {
    let status = platform::status_at(folder, name)?;
    let mut seal = TreeSealer { hasher: Sha256::new(), bytes_left: 0, error: None };
    seal.add_part(format!("{:?} {:o}", status.kind, status.facts.mode).as_bytes());
    match status.kind {
        FileType::RegularFile => {
            seal.bytes_left = MAX_FILE_BYTES;
            let read = seal.add_content(&status.facts, || open_file(folder, name).map(FileReader::new));
            if !read {
                let (inode, modified) = (status.facts.identity.inode, status.facts.modified);
                seal.add_part(format!("{inode} {} {modified:?}", status.facts.size).as_bytes());
            }
        }
        FileType::Directory => {
            seal.bytes_left = MAX_TREE_BYTES;
            seal.add_tree(open_folder(folder, name)?)?;
        }
        _ => {}
    }
    match seal.error {
        Some(problem) => Err(problem),
        None => Ok(tool::canonical::hex(&seal.hasher.finalize())),
    }
}

impl TreeSealer {
    fn add_tree(&mut self, top: OwnedFd) -> io::Result<()> {
        let unseen = walk_tree(top, &mut |found| {
            let facts = found.facts();
            self.add_entry(found.relative, &found.entry.kind, facts.as_ref(), || found.reader());
            if self.error.is_some() { VisitAction::Stop } else { VisitAction::Enter }
        })?;
        self.add_part(format!("{unseen:?}").as_bytes());
        Ok(())
    }

    fn add_entry(
        &mut self,
        name: &Path,
        kind: &EntryKind,
        facts: Option<&ObjectFacts>,
        open: impl FnOnce() -> io::Result<FileReader>,
    ) {
        self.add_part(name.as_os_str().as_encoded_bytes());
        self.add_part(format!("{kind:?} {:?}", facts.map(|facts| facts.mode)).as_bytes());
        let Some(facts) = facts.filter(|_| *kind == EntryKind::File) else { return };
        if !self.add_content(facts, open) {
            let (inode, size) = (facts.identity.inode, facts.size);
            self.add_part(format!("{inode} {size} {:?} {:?}", facts.modified, facts.changed).as_bytes());
        }
    }

    /// Adds the content and returns true, if it fits the limit and can be read.
    fn add_content(&mut self, facts: &ObjectFacts, open: impl FnOnce() -> io::Result<FileReader>) -> bool {
        let Some(left) = self.bytes_left.checked_sub(facts.size) else { return false };
        match open().and_then(|reader| digest(reader, facts.size)) {
            Ok(digest) => {
                self.bytes_left = left;
                self.add_part(&digest);
                true
            }
            Err(error) => {
                // A permission error will be the same at the next seal, and a missing file was removed by
                // another process: both are part of the state. Any other error may be temporary.
                let lasts = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound);
                self.error = self.error.take().or(Some(error).filter(|_| !lasts));
                false
            }
        }
    }

    /// Adds a part with its length first, so that different trees never give the same input.
    fn add_part(&mut self, bytes: &[u8]) {
        self.hasher.update((bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
    }
}

/// Digests at most one byte more than the expected size, which is enough to detect that the file grew.
fn digest(reader: FileReader, size: u64) -> io::Result<Vec<u8>> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    let mut source = reader.take(size.saturating_add(1));
    loop {
        let length = source.read(&mut buffer)?;
        let part = buffer.get(..length).unwrap_or_default();
        if part.is_empty() {
            return Ok(hasher.finalize().to_vec());
        }
        hasher.update(part);
    }
}
