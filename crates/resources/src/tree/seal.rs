//! What a name leads to, in one digest, to tell later whether it is still the same: names, kinds, permissions, contents.
//!
//! Of a tree so much is read; of what lies beyond, and of what may not be read, the object, its size and its times stand
//! for the content. A lone file is read whole, for giving it another name changes one of its times. What cannot be read
//! today and perhaps tomorrow has no seal.

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

/// Bytes that are read of a tree: more takes longer than a removal should.
const MOST_OF_A_TREE: u64 = 64 * 1024 * 1024;
/// Bytes that are read of a lone file: as many as are kept unless somebody wants more.
const MOST_OF_A_FILE: u64 = 1024 * 1024 * 1024;

struct Seal {
    hasher: Sha256,
    /// Bytes that may still be read.
    left: u64,
    /// Why it is none.
    problem: Option<io::Error>,
}

/// The digest of what a name in a folder leads to.
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

    /// Takes the content in, if there is room for it and it can be read.
    fn content(&mut self, facts: &ObjectFacts, open: impl FnOnce() -> io::Result<Reader>) -> bool {
        let Some(left) = self.left.checked_sub(facts.size) else { return false };
        match open().and_then(|reader| digest(reader, facts.size)) {
            Ok(digest) => {
                self.left = left;
                self.part(&digest);
                true
            }
            Err(error) => {
                // Whoever may not read it now may not when it comes back either; what is gone was somebody else's doing.
                let lasts = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound);
                self.problem = self.problem.take().or(Some(error).filter(|_| !lasts));
                false
            }
        }
    }

    /// Each part has its length before it, so that no two trees read the same.
    fn part(&mut self, bytes: &[u8]) {
        self.hasher.update((bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
    }
}

/// One byte more than it should have is enough to tell that it grew.
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
