//! macOS: there is no descriptor that merely refers, so a handle is one opened for reading, without blocking and
//! never on a special file; its name comes from `F_GETPATH` and is confirmed by opening that name again.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::{Status, moment};
use crate::opened::{Identity, ObjectFacts};

mod copyfile;
pub(crate) use copyfile::copy_attributes;

/// `PATH_MAX` counts the final NUL.
pub(crate) const LONGEST_PATH: usize = 1023;

/// As many links as the kernel follows in one path.
pub(crate) const MOST_LINKS: usize = 32;

/// Where the writable volume is mounted; its folders show through at the root as firmlinks.
const DATA_VOLUME: &str = "/System/Volumes/Data";

/// `O_SEARCH`: a directory that may be passed through but not listed.
const SEARCH: OFlags = OFlags::from_bits_retain(0x4000_0000).union(OFlags::DIRECTORY);

const HANDLE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens what a path leads to, without blocking or opening a special file.
pub(crate) fn reach(path: &Path) -> Result<OwnedFd, Errno> {
    confirmed(&open(CWD, path.as_os_str(), OFlags::empty())?)
}

/// This system cannot say what it would have to wait for, so nothing is at hand.
pub(crate) fn reach_at_hand(_path: &Path) -> Result<OwnedFd, Errno> {
    Err(Errno::AGAIN)
}

pub(crate) fn status_at_hand(_handle: &OwnedFd) -> Option<Status> {
    None
}

pub(crate) fn is_local(_handle: &OwnedFd) -> bool {
    false
}

pub(crate) fn read_at_hand(_file: &OwnedFd, _buffer: &mut [u8], _offset: u64) -> Result<usize, Errno> {
    Err(Errno::AGAIN)
}

/// The same for one step from a handle.
pub(crate) fn reach_from(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    confirmed(&open(folder.as_fd(), name, OFlags::empty())?)
}

/// The same for a path that must not lead through any link.
pub(crate) fn reach_without_links(path: &Path) -> Result<OwnedFd, Errno> {
    open(CWD, path.as_os_str(), OFlags::NOFOLLOW_ANY)
}

fn open(folder: BorrowedFd<'_>, path: &OsStr, extra: OFlags) -> Result<OwnedFd, Errno> {
    // Opening a FIFO would wake its writer, a device may act: both are refused before they are touched.
    let status = Status::from(rustix::fs::statat(folder, path, AtFlags::empty())?);
    if !matches!(status.kind, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::OPNOTSUPP);
    }
    let with = |flags| retry_on_intr(|| rustix::fs::openat(folder, path, flags | extra, Mode::empty()));
    match with(HANDLE) {
        Err(Errno::ACCESS) if status.kind == FileType::Directory => with(SEARCH | OFlags::CLOEXEC),
        opened => opened,
    }
}

/// `/dev/fd/N` gives a copy of a descriptor of ours, and an object with several names may be told by another one:
/// what counts is a descriptor of our own, opened by the very name that will be judged.
fn confirmed(first: &OwnedFd) -> Result<OwnedFd, Errno> {
    let identity = super::status(first)?.facts.identity;
    let second = reach_without_links(&current_name(first)?)?;
    if super::status(&second)?.facts.identity == identity { Ok(second) } else { Err(Errno::NOENT) }
}

/// Links into processes do not exist here.
pub(crate) fn is_magic(_folder: &OwnedFd, _errno: Errno) -> bool {
    false
}

/// The canonical name of a handle's object; `ENOENT` if it has none any more.
pub(crate) fn name_of(handle: &OwnedFd, facts: &ObjectFacts) -> Result<PathBuf, Errno> {
    if facts.links == 0 {
        return Err(Errno::NOENT);
    }
    let name = current_name(handle)?;
    let through_root = name.strip_prefix(DATA_VOLUME).ok().map(|rest| Path::new("/").join(rest));
    let is_same = |path: &PathBuf| {
        let there = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map(Status::from);
        there.is_ok_and(|there| there.facts.identity == facts.identity)
    };
    Ok(through_root.filter(is_same).unwrap_or(name))
}

fn current_name(handle: &OwnedFd) -> Result<PathBuf, Errno> {
    let name = PathBuf::from(OsString::from_vec(rustix::fs::getpath(handle)?.into_bytes()));
    if name.is_absolute() { Ok(name) } else { Err(Errno::NOENT) }
}

/// The handle itself can be read from; readers keep their own position.
pub(crate) fn reopen_for_reading(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(handle, 0)
}

/// The same directory as a descriptor of its own, to list and to sync it.
pub(crate) fn reopen_directory(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(handle, ".", flags, Mode::empty()))
}

/// Whether the file under this name may be written to by us, were it written to in place.
pub(crate) fn may_write(_handle: &OwnedFd, folder: &OwnedFd, leaf: &OsStr) -> Result<(), Errno> {
    rustix::fs::accessat(folder, leaf, Access::WRITE_OK, AtFlags::empty())
}

/// Waits until the content is on the disk and not only in the drive. Not every volume can promise that.
pub(crate) fn sync_file(file: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::fcntl_fullfsync(&file) {
        // Only a volume that lacks the call is asked again: after a real error a second answer means nothing.
        Err(Errno::NOTSUP | Errno::INVAL | Errno::NOTTY) => rustix::fs::fsync(&file),
        synced => synced,
    }
}

pub(crate) fn facts(stat: &Stat) -> ObjectFacts {
    ObjectFacts {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        // In units of 512 bytes, whatever the blocks of the file system are.
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
        links: u64::from(stat.st_nlink),
        mode: u32::from(stat.st_mode) & 0o7777,
        modified: moment(stat.st_mtime, u64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        changed: moment(stat.st_ctime, u64::try_from(stat.st_ctime_nsec).unwrap_or(0)),
        // The number of a device is an opaque word of 32 bits; its sign means nothing.
        identity: Identity { device: u64::from(stat.st_dev.cast_unsigned()), inode: stat.st_ino },
    }
}
