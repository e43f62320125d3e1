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

use super::{Next, below, open_file, open_folder};
use crate::list::EntryKind;
use crate::opened::ObjectFacts;
use crate::platform;
use crate::read::Reader;

/// Maximum number of bytes read of a tree. Reading more takes too long for a removal.
const MOST_OF_A_TREE: u64 = 64 * 1024 * 1024;
/// Maximum number of bytes read of a single file: the default undo quota.
const MOST_OF_A_FILE: u64 = 1024 * 1024 * 1024;

struct Seal {
    hasher: Sha256,
    /// Number of bytes that may still be read.
    left: u64,
    /// Error because of which there is no seal.
    problem: Option<io::Error>,
}

/// Returns the digest of an entry of a folder.
pub(crate) fn seal(folder: &OwnedFd, name: &OsStr) -> io::Result<String> {
    let status = platform::status_at(folder, name)?;
    let mut seal = Seal { hasher: Sha256::new(), left: 0, problem: None };
    seal.part(format!("{:?} {:o}", status.kind, status.facts.mode).as_bytes());
    match status.kind {
        FileType::RegularFile => {
            seal.left = MOST_OF_A_FILE;
            let read = seal.content(&status.facts, || open_file(folder, name).map(Reader::new));
            if !read {
                let (inode, modified) = (status.facts.identity.inode, status.facts.modified);
                seal.part(format!("{inode} {} {modified:?}", status.facts.size).as_bytes());
            }
        }
        FileType::Directory => {
            seal.left = MOST_OF_A_TREE;
            seal.tree(open_folder(folder, name)?)?;
        }
        _ => {}
    }
    match seal.problem {
        Some(problem) => Err(problem),
        None => Ok(tool::canonical::hex(&seal.hasher.finalize())),
    }
}

impl Seal {
    fn tree(&mut self, top: OwnedFd) -> io::Result<()> {
        let unseen = below(top, &mut |found| {
            let facts = found.facts();
            self.entry(found.relative, &found.entry.kind, facts.as_ref(), || found.reader());
            if self.problem.is_some() { Next::Stop } else { Next::Enter }
        })?;
        self.part(format!("{unseen:?}").as_bytes());
        Ok(())
    }

    fn entry(
        &mut self,
        name: &Path,
        kind: &EntryKind,
        facts: Option<&ObjectFacts>,
        open: impl FnOnce() -> io::Result<Reader>,
    ) {
        self.part(name.as_os_str().as_encoded_bytes());
        self.part(format!("{kind:?} {:?}", facts.map(|facts| facts.mode)).as_bytes());
        let Some(facts) = facts.filter(|_| *kind == EntryKind::File) else { return };
        if !self.content(facts, open) {
            let (inode, size) = (facts.identity.inode, facts.size);
            self.part(format!("{inode} {size} {:?} {:?}", facts.modified, facts.changed).as_bytes());
        }
    }

    /// Adds the content and returns true, if it fits the limit and can be read.
    fn content(&mut self, facts: &ObjectFacts, open: impl FnOnce() -> io::Result<Reader>) -> bool {
        let Some(left) = self.left.checked_sub(facts.size) else { return false };
        match open().and_then(|reader| digest(reader, facts.size)) {
            Ok(digest) => {
                self.left = left;
                self.part(&digest);
                true
            }
            Err(error) => {
                // A permission error will be the same at the next seal, and a missing file was removed by
                // another process: both are part of the state. Any other error may be temporary.
                let lasts = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound);
                self.problem = self.problem.take().or(Some(error).filter(|_| !lasts));
                false
            }
        }
    }

    /// Adds a part with its length first, so that different trees never give the same input.
    fn part(&mut self, bytes: &[u8]) {
        self.hasher.update((bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
    }
}

/// Digests at most one byte more than the expected size, which is enough to detect that the file grew.
fn digest(reader: Reader, size: u64) -> io::Result<Vec<u8>> {
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
