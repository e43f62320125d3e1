//! The entries of a directory, through the handle that was judged.
//!
//! Nothing is followed: a symbolic link is shown with its text. Which entries a caller may see is not decided here.

use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::SystemTime;

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::error::AccessError;
use crate::opened::{Object, OpenedPath, special_name};
use crate::platform;

/// Names that are looked at in one directory. A file system can make up names without end.
const MOST_NAMES: u64 = 1_000_000;

/// What a directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The first entries in the byte order of their names.
    pub entries: Vec<Entry>,
    /// How many names the directory has; counting ends at a million.
    pub total: u64,
    /// Whether there are more entries than are shown.
    pub cut: bool,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which need not be Unicode.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
    /// In bytes; of a link, the length of its text. Unknown for what could not be looked at.
    pub size: Option<u64>,
    /// When its content last changed.
    pub modified: Option<SystemTime>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link and the text it holds.
    Symlink(OsString),
    /// A FIFO, socket or device.
    Special(&'static str),
    /// The system does not let us look at it.
    Unreadable,
}

impl OpenedPath {
    /// Lists the directory, at most `most` entries of it.
    pub fn list(&self, most: usize) -> Result<Listing, AccessError> {
        let Object::Directory { handle, facts, .. } = &self.object else {
            return Err(self.unsuitable("directory"));
        };
        let failed = |errno: Errno| AccessError::io("listing", &self.canonical, errno);
        let readable = platform::reopen_directory(handle).map_err(failed)?;
        if platform::status(&readable).map_err(failed)?.facts.identity != facts.identity {
            let found = "another object is there now".to_owned();
            return Err(AccessError::Conflict { path: self.canonical.clone(), found });
        }
        let (names, total) = first_names(readable, most).map_err(failed)?;
        let entries = names.into_iter().filter_map(|name| entry(handle, name)).collect();
        Ok(Listing { entries, total, cut: total > most as u64 })
    }
}

/// The first names in byte order, without ever holding more of them, and the count of all.
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
        if total == MOST_NAMES {
            break;
        }
    }
    Ok((first.into_sorted_vec(), total))
}

/// An entry, or nothing if it went away since its name was read.
pub(crate) fn entry(directory: &OwnedFd, name: OsString) -> Option<Entry> {
    let status = match platform::status_at(directory, &name) {
        Ok(status) => status,
        Err(Errno::NOENT) => return None,
        Err(_) => return Some(Entry { name, kind: EntryKind::Unreadable, size: None, modified: None }),
    };
    let kind = match status.kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => match rustix::fs::readlinkat(directory, &name, Vec::new()) {
            Ok(text) => EntryKind::Symlink(OsString::from_vec(text.into_bytes())),
            Err(_) => EntryKind::Unreadable,
        },
        special => EntryKind::Special(special_name(special)),
    };
    Some(Entry { name, kind, size: Some(status.facts.size), modified: Some(status.facts.modified) })
}

#[cfg(test)]
mod tests;
