//! Durable copy of a tree to another volume: files, folders and links with their permissions and attributes.
//!
//! Any other kind of entry cannot be copied and makes the whole copy fail.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::{Mode, RawMode};

use super::{DEEPEST, MOST_NAMES, Next, below, create_file, open_file, open_folder};
use crate::list::{EntryKind, entry, first_names};
use crate::platform;

/// Inode, size and modification time of every entry of a tree, to detect changes.
pub(crate) type Print = BTreeMap<PathBuf, (u64, u64, Option<SystemTime>)>;

/// Returns the fingerprint of a tree.
pub(crate) fn print(tree: &OwnedFd) -> io::Result<Print> {
    let mut print = Print::new();
    below(platform::reopen_directory(tree)?, &mut |found| {
        let inode =
            platform::status_at(found.folder, &found.entry.name).map(|seen| seen.facts.identity.inode);
        let is_folder = found.entry.kind == EntryKind::Directory;
        // The size of a folder depends on the file system.
        let size = found.entry.size.filter(|_| !is_folder).unwrap_or_default();
        print.insert(found.relative.to_owned(), (inode.unwrap_or_default(), size, found.entry.modified));
        Next::Enter
    })?;
    Ok(print)
}

/// Copies the tree at a name in one folder to a name in another.
pub(crate) fn copy(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    folder(from, name, to, new, DEEPEST)
}

fn folder(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr, deepest: usize) -> io::Result<()> {
    if deepest == 0 {
        return Err(io::Error::other("it is too deep"));
    }
    let source = open_folder(from, name)?;
    rustix::fs::mkdirat(to, new, Mode::RWXU)?;
    let target = open_folder(to, new)?;
    let (names, total) = first_names(platform::reopen_directory(&source)?, MOST_NAMES)?;
    if total > names.len() as u64 {
        return Err(io::Error::other("a folder in it has too many entries"));
    }
    for found in names.into_iter().filter_map(|name| entry(&source, name)) {
        match &found.kind {
            EntryKind::Directory => folder(&source, &found.name, &target, &found.name, deepest - 1)?,
            EntryKind::File => {
                let mode = platform::status_at(&source, &found.name)?.facts.mode;
                copy_file(&source, &found.name, &target, &found.name, permissions(mode))?;
            }
            EntryKind::Symlink(text) => rustix::fs::symlinkat(text.as_os_str(), &target, &found.name)?,
            EntryKind::Special(what) => {
                let name = found.name.to_string_lossy();
                return Err(io::Error::other(format!("`{name}` in it is a {what}, which cannot be copied")));
            }
            EntryKind::Unreadable => return Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
    let mode = platform::status(&source)?.facts.mode;
    platform::copy_attributes(&source, &target);
    rustix::fs::fchmod(&target, permissions(mode))?;
    Ok(rustix::fs::fsync(&target)?)
}

/// Returns the permission bits without setuid, setgid and sticky. The width of the raw mode differs by
/// system.
pub(crate) fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(RawMode::try_from(mode & 0o777).unwrap_or_default())
}

/// Copies one file to a new name, with these permissions.
pub(crate) fn copy_file(
    from: &OwnedFd,
    name: &OsStr,
    to: &OwnedFd,
    new: &OsStr,
    bits: Mode,
) -> io::Result<()> {
    let mut source = open_file(from, name)?;
    let mut target = create_file(to, new, Mode::RUSR | Mode::WUSR)?;
    io::copy(&mut source, &mut target)?;
    platform::copy_attributes(&OwnedFd::from(source), &target);
    rustix::fs::fchmod(&target, bits)?;
    Ok(platform::sync_file(&target)?)
}
