//! Directory listing through the handle that was judged.
//!
//! Symbolic links are not followed; they are listed with their text. This module does not decide which
//! entries a caller may see.

use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::error::AccessError;
use crate::opened::{ObjectKind, OpenedObject, OpenedPath, special_kind_name};
use crate::platform;

/// Maximum number of names read from one directory. A virtual file system can generate names without end.
const MAX_NAMES: u64 = 1_000_000;

/// Entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderListing {
    /// First entries in the byte order of their names.
    pub entries: Vec<DirectoryEntry>,
    /// Number of names in the directory. Counting stops at a million.
    pub total: u64,
    /// True if there are more entries than listed.
    pub truncated: bool,
}

/// Entries of a directory in the order of the file system, from a position on. Holds no names.
pub struct DirectoryScan<'a> {
    names: Dir,
    folder: &'a OwnedFd,
    canonical: &'a Path,
    position: u64,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name, which need not be Unicode.
    pub name: OsString,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Size in bytes; for a link, the length of its text. `None` if the entry could not be inspected.
    pub size: Option<u64>,
    /// Time of the last change to the content.
    pub modified: Option<SystemTime>,
}

/// Kind of a directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link and its text.
    Symlink(OsString),
    /// A FIFO, socket or device.
    Special(&'static str),
    /// The operating system denies access to the metadata.
    Unreadable,
}

impl OpenedPath {
    /// Lists at most `most` entries of the directory.
    pub fn list(&self, most: usize) -> Result<FolderListing, AccessError> {
        let OpenedObject::Directory { handle, .. } = &self.object else {
            return Err(self.wrong_kind_error("directory"));
        };
        let failed = |errno: Errno| AccessError::io("listing", &self.canonical, errno);
        let (names, total) = first_names(self.reopen(ObjectKind::Directory)?, most).map_err(failed)?;
        let entries = names.into_iter().filter_map(|name| read_entry(handle, name)).collect();
        Ok(FolderListing { entries, total, truncated: total > most as u64 })
    }
}

impl OpenedPath {
    /// Begins to read the directory in the order of the file system: at its start for position 0, or after the entry
    /// behind which a scan had this position.
    pub fn scan(&self, position: u64) -> Result<DirectoryScan<'_>, AccessError> {
        let OpenedObject::Directory { handle, .. } = &self.object else {
            return Err(self.wrong_kind_error("directory"));
        };
        let failed = |errno: Errno| AccessError::io("listing", &self.canonical, errno);
        let mut names = Dir::new(self.reopen(ObjectKind::Directory)?).map_err(failed)?;
        if position > 0 {
            platform::seek_directory(&mut names, position).map_err(failed)?;
        }
        Ok(DirectoryScan { names, folder: handle, canonical: &self.canonical, position })
    }
}

impl DirectoryScan<'_> {
    /// Returns the next name, or `None` at the end.
    pub fn next_name(&mut self) -> Result<Option<OsString>, AccessError> {
        while let Some(found) = self.names.read() {
            let found = found.map_err(|errno| AccessError::io("listing", self.canonical, errno))?;
            self.position = platform::position_after(&found, self.position);
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name != "." && name != ".." {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }

    /// Returns the position after the last name.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Reads the metadata of a name. Returns `None` if it no longer exists.
    pub fn entry(&self, name: OsString) -> Option<DirectoryEntry> {
        read_entry(self.folder, name)
    }
}

/// Returns the first `most` names in byte order and the number of all names. Never holds more than `most + 1`
/// names.
pub(crate) fn first_names(directory: OwnedFd, most: usize) -> Result<(Vec<OsString>, u64), Errno> {
    let mut first = BinaryHeap::new();
    let mut total = 0;
    for found in Dir::new(directory)? {
        let found = found?;
        let name = OsStr::from_bytes(found.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        total += 1;
        let belongs = first.len() < most || first.peek().is_some_and(|last: &OsString| name < last);
        if belongs && most > 0 {
            first.push(name.to_owned());
        }
        if first.len() > most {
            first.pop();
        }
        if total == MAX_NAMES {
            break;
        }
    }
    Ok((first.into_sorted_vec(), total))
}

/// Reads the metadata of a name. Returns `None` if it no longer exists.
pub(crate) fn read_entry(directory: &OwnedFd, name: OsString) -> Option<DirectoryEntry> {
    let status = match platform::status_at(directory, &name) {
        Ok(status) => status,
        Err(Errno::NOENT) => return None,
        Err(_) => {
            return Some(DirectoryEntry { name, kind: EntryKind::Unreadable, size: None, modified: None });
        }
    };
    let kind = match status.kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => match rustix::fs::readlinkat(directory, &name, Vec::new()) {
            Ok(text) => EntryKind::Symlink(OsString::from_vec(text.into_bytes())),
            Err(_) => EntryKind::Unreadable,
        },
        special => EntryKind::Special(special_kind_name(special)),
    };
    Some(DirectoryEntry { name, kind, size: Some(status.facts.size), modified: Some(status.facts.modified) })
}

#[cfg(test)]
mod tests;
