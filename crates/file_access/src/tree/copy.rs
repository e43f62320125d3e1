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

use super::{MAX_DEPTH, MAX_NAMES_PER_FOLDER, VisitAction, create_file, open_file, open_folder, walk_tree};
use crate::list::{EntryKind, first_names, read_entry};
use crate::platform;

/// Inode, size and modification time of every entry of a tree, to detect changes.
pub(crate) type TreeFingerprint = BTreeMap<PathBuf, (u64, u64, Option<SystemTime>)>;

/// Returns the fingerprint of a tree.
pub(crate) fn fingerprint(tree: &OwnedFd) -> io::Result<TreeFingerprint> {
    let mut print = TreeFingerprint::new();
    walk_tree(platform::reopen_directory(tree)?, &mut |found| {
        let inode =
            platform::status_at(found.folder, &found.entry.name).map(|seen| seen.facts.identity.inode);
        let is_folder = found.entry.kind == EntryKind::Directory;
        // The size of a folder depends on the file system.
        let size = found.entry.size.filter(|_| !is_folder).unwrap_or_default();
        print.insert(found.relative.to_owned(), (inode.unwrap_or_default(), size, found.entry.modified));
        VisitAction::Enter
    })?;
    Ok(print)
}

/// Copies the tree at a name in one folder to a name in another.
pub(crate) fn copy_tree(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    copy_folder(from, name, to, new, MAX_DEPTH)
}

fn copy_folder(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr, deepest: usize) -> io::Result<()> {
    if deepest == 0 {
        return Err(io::Error::other("it is too deep"));
    }
    let source = open_folder(from, name)?;
    rustix::fs::mkdirat(to, new, Mode::RWXU)?;
    let target = open_folder(to, new)?;
    let (names, total) = first_names(platform::reopen_directory(&source)?, MAX_NAMES_PER_FOLDER)?;
    if total > names.len() as u64 {
        return Err(io::Error::other("a folder in it has too many entries"));
    }
    for found in names.into_iter().filter_map(|name| read_entry(&source, name)) {
        match &found.kind {
            EntryKind::Directory => copy_folder(&source, &found.name, &target, &found.name, deepest - 1)?,
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
