//! Traversal of everything below a judged directory, through handles: each folder is opened from its parent
//! by one plain name, and no link is followed. This module does not decide which entries may be shown or
//! removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::AccessError;
use crate::list::{DirectoryEntry, EntryKind, first_names, read_entry};
use crate::opened::{ObjectFacts, ObjectKind, OpenedObject, OpenedPath};
use crate::platform;
use crate::read::FileReader;

mod copy;
mod remove_tree;
mod seal;

pub(crate) use copy::{TreeFingerprint, copy_file, copy_tree, fingerprint, permissions};
pub(crate) use remove_tree::remove_tree;
pub(crate) use seal::seal;

/// Maximum number of names visited per folder, in byte order.
const MAX_NAMES_PER_FOLDER: usize = 250_000;

/// Maximum depth. Each level holds a descriptor while its folder is visited.
const MAX_DEPTH: usize = 256;

/// Maximum number of unreadable folders that are reported by name.
const MAX_REPORTED: usize = 100;

const FOLDER_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Entry below the visited directory.
#[derive(Debug)]
pub struct TreeEntry<'a> {
    folder: &'a OwnedFd,
    /// Path relative to the directory.
    pub relative: &'a Path,
    /// Name and kind.
    pub entry: &'a DirectoryEntry,
    /// Depth; 1 for the entries of the directory itself.
    pub depth: usize,
}

/// Continuation of a traversal after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitAction {
    /// Continue, and enter the entry if it is a folder.
    Enter,
    /// Continue with the next entry.
    Skip,
    /// End the traversal.
    Stop,
}

/// Entries that a traversal could not visit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedEntries {
    /// Folders that could not be read; the first hundred.
    pub unreadable: Vec<PathBuf>,
    /// True if a folder had too many names or was too deep.
    pub truncated: bool,
}

struct TreeLevel {
    handle: OwnedFd,
    relative: PathBuf,
    names: std::vec::IntoIter<OsString>,
}

impl OpenedPath {
    /// Visits everything below the directory, with the entries of each folder in the byte order of their
    /// names.
    pub fn visit(
        &self,
        visit: &mut dyn FnMut(&TreeEntry<'_>) -> VisitAction,
    ) -> Result<SkippedEntries, AccessError> {
        let readable = self.reopen(ObjectKind::Directory)?;
        walk_tree(readable, visit).map_err(|errno| AccessError::io("listing", &self.canonical, errno))
    }

    /// Opens a regular file of this name in the directory.
    pub fn open_file_in(&self, name: &str) -> io::Result<FileReader> {
        let OpenedObject::Directory { handle, .. } = &self.object else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        open_regular_file(&platform::reopen_directory(handle)?, OsStr::new(name))
    }
}

fn open_regular_file(folder: &OwnedFd, name: &OsStr) -> io::Result<FileReader> {
    // Opening a device can already have effects, so a device that replaced the file must not be opened.
    if platform::status_at(folder, name)?.kind != FileType::RegularFile {
        return Err(no_file());
    }
    open_file(folder, name).map(FileReader::new)
}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file any more")
}

/// Like `OpenedPath::visit`, for any open folder.
pub(crate) fn walk_tree(
    top: OwnedFd,
    visit: &mut dyn FnMut(&TreeEntry<'_>) -> VisitAction,
) -> Result<SkippedEntries, Errno> {
    let mut unseen = SkippedEntries::default();
    let mut levels = vec![open_level(top, PathBuf::new(), &mut unseen)?];
    while let Some(here) = levels.last_mut() {
        let Some(name) = here.names.next() else {
            levels.pop();
            continue;
        };
        let relative = here.relative.join(&name);
        let Some(entry) = read_entry(&here.handle, name) else { continue };
        let depth = levels.len();
        let Some(here) = levels.last() else { break };
        match visit(&TreeEntry { folder: &here.handle, relative: &relative, entry: &entry, depth }) {
            VisitAction::Stop => break,
            VisitAction::Enter if entry.kind == EntryKind::Directory && depth < MAX_DEPTH => {
                let opened = open_folder(&here.handle, &entry.name);
                match opened.and_then(|handle| open_level(handle, relative.clone(), &mut unseen)) {
                    Ok(level) => levels.push(level),
                    // Deleted or replaced meanwhile: nothing of it was visited.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(_) if unseen.unreadable.len() < MAX_REPORTED => unseen.unreadable.push(relative),
                    Err(_) => unseen.truncated = true,
                }
            }
            VisitAction::Enter if entry.kind == EntryKind::Directory => unseen.truncated = true,
            VisitAction::Enter | VisitAction::Skip => {}
        }
    }
    Ok(unseen)
}

fn open_level(handle: OwnedFd, relative: PathBuf, unseen: &mut SkippedEntries) -> Result<TreeLevel, Errno> {
    let (names, total) = first_names(platform::reopen_directory(&handle)?, MAX_NAMES_PER_FOLDER)?;
    unseen.truncated |= total > names.len() as u64;
    Ok(TreeLevel { handle, relative, names: names.into_iter() })
}

/// Opens a folder by its plain name in another. Does not follow a link.
pub(crate) fn open_folder(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(folder, name, FOLDER_FLAGS, Mode::empty())
}

/// Opens a regular file by its plain name in a folder. Does not follow a link and does not block.
pub(crate) fn open_file(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    if platform::status(&file)?.kind != FileType::RegularFile {
        return Err(no_file());
    }
    Ok(File::from(file))
}

/// Creates a file under a plain name in a folder, where nothing may exist.
pub(crate) fn create_file(folder: &OwnedFd, name: impl rustix::path::Arg, mode: Mode) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, mode)?))
}

impl TreeEntry<'_> {
    /// Returns the current metadata, or `None` if the entry no longer exists.
    pub fn facts(&self) -> Option<ObjectFacts> {
        platform::status_at(self.folder, &self.entry.name).ok().map(|seen| seen.facts)
    }

    /// Returns the device number of the entry's volume.
    pub(crate) fn device(&self) -> Option<u64> {
        self.facts().map(|facts| facts.identity.device)
    }

    /// Opens a regular file of this name in the visited folder.
    pub fn open_file_in(&self, name: &str) -> io::Result<FileReader> {
        open_regular_file(&open_folder(self.folder, &self.entry.name)?, OsStr::new(name))
    }

    /// Returns a reader of the file. It ends at the current end of the file, which may grow: bound it with
    /// `io::Read::take`.
    pub fn reader(&self) -> io::Result<FileReader> {
        open_regular_file(self.folder, &self.entry.name)
    }
}

#[cfg(test)]
mod tests;
