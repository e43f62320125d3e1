//! macOS: there is no descriptor that only refers to an object, so a handle is opened for reading, without
//! blocking and never on a special file. Its name comes from `F_GETPATH` and is confirmed by opening that
//! name again.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::{FileStatus, system_time};
use crate::opened::{ObjectFacts, ObjectIdentity};

mod copyfile;
pub(crate) use copyfile::copy_attributes;

/// `PATH_MAX` includes the final NUL.
pub(crate) const MAX_PATH_BYTES: usize = 1023;

/// Number of symbolic links that the kernel follows in one path.
pub(crate) const MAX_SYMLINKS: usize = 32;

/// Mount point of the writable volume, whose folders appear at the root as firmlinks.
const DATA_VOLUME: &str = "/System/Volumes/Data";

/// `O_SEARCH`: opens a directory that may be traversed but not listed.
const SEARCH_FLAGS: OFlags = OFlags::from_bits_retain(0x4000_0000).union(OFlags::DIRECTORY);

const HANDLE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a path as a handle, without blocking or opening a special file.
pub(crate) fn open_handle(path: &Path) -> Result<OwnedFd, Errno> {
    reopen_by_name(&open(CWD, path.as_os_str(), OFlags::empty())?)
}

/// Always fails: macOS cannot open from its caches only.
pub(crate) fn open_handle_cached(_path: &Path) -> Result<OwnedFd, Errno> {
    Err(Errno::AGAIN)
}

pub(crate) fn status_cached(_handle: &OwnedFd) -> Option<FileStatus> {
    None
}

pub(crate) fn is_local(_handle: &OwnedFd) -> bool {
    false
}

pub(crate) fn read_cached(_file: &OwnedFd, _buffer: &mut [u8], _offset: u64) -> Result<usize, Errno> {
    Err(Errno::AGAIN)
}

/// Opens one component below a handle.
pub(crate) fn open_handle_at(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    reopen_by_name(&open(folder.as_fd(), name, OFlags::empty())?)
}

/// Opens a path and fails if it contains a symbolic link.
pub(crate) fn open_handle_nofollow(path: &Path) -> Result<OwnedFd, Errno> {
    open(CWD, path.as_os_str(), OFlags::NOFOLLOW_ANY)
}

fn open(folder: BorrowedFd<'_>, path: &OsStr, extra: OFlags) -> Result<OwnedFd, Errno> {
    // Opening a FIFO would wake its writer, and opening a device may have effects, so both are refused first.
    let status = FileStatus::from(rustix::fs::statat(folder, path, AtFlags::empty())?);
    if !matches!(status.kind, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::OPNOTSUPP);
    }
    let with = |flags| retry_on_intr(|| rustix::fs::openat(folder, path, flags | extra, Mode::empty()));
    match with(HANDLE_FLAGS) {
        Err(Errno::ACCESS) if status.kind == FileType::Directory => with(SEARCH_FLAGS | OFlags::CLOEXEC),
        opened => opened,
    }
}

/// Reopens an object by its current name and checks that it is the same object. `/dev/fd/N` duplicates a
/// descriptor of this process, and a file with several hard links may report another name: only a descriptor
/// opened by the name that will be judged is safe.
fn reopen_by_name(first: &OwnedFd) -> Result<OwnedFd, Errno> {
    let identity = super::status(first)?.facts.identity;
    let second = open_handle_nofollow(&current_path(first)?)?;
    if super::status(&second)?.facts.identity == identity { Ok(second) } else { Err(Errno::NOENT) }
}

/// Always false: macOS has no magic links.
pub(crate) fn is_magic_link(_folder: &OwnedFd, _errno: Errno) -> bool {
    false
}

/// Returns the canonical path of a handle; `ENOENT` if its object was deleted.
pub(crate) fn path_of(handle: &OwnedFd, facts: &ObjectFacts) -> Result<PathBuf, Errno> {
    if facts.links == 0 {
        return Err(Errno::NOENT);
    }
    let name = current_path(handle)?;
    let through_root = name.strip_prefix(DATA_VOLUME).ok().map(|rest| Path::new("/").join(rest));
    let is_same = |path: &PathBuf| {
        let there = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map(FileStatus::from);
        there.is_ok_and(|there| there.facts.identity == facts.identity)
    };
    Ok(through_root.filter(is_same).unwrap_or(name))
}

fn current_path(handle: &OwnedFd) -> Result<PathBuf, Errno> {
    let name = PathBuf::from(OsString::from_vec(rustix::fs::getpath(handle)?.into_bytes()));
    if name.is_absolute() { Ok(name) } else { Err(Errno::NOENT) }
}

/// Duplicates the handle, which can be read from. Readers keep their own position.
pub(crate) fn reopen_for_reading(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(handle, 0)
}

/// Opens the directory again, for listing and syncing.
pub(crate) fn reopen_directory(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(handle, ".", flags, Mode::empty()))
}

/// Checks that this process may write to the file in place.
pub(crate) fn check_write_access(_handle: &OwnedFd, folder: &OwnedFd, leaf: &OsStr) -> Result<(), Errno> {
    rustix::fs::accessat(folder, leaf, Access::WRITE_OK, AtFlags::empty())
}

/// Waits until the content is on the disk and not only in the drive's cache, if the volume supports that.
pub(crate) fn sync_file(file: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::fcntl_fullfsync(&file) {
        // Fall back only if the volume lacks the call. After a real error, a later `fsync` may succeed
        // although data was lost.
        Err(Errno::NOTSUP | Errno::INVAL | Errno::NOTTY) => rustix::fs::fsync(&file),
        synced => synced,
    }
}

pub(crate) fn facts(stat: &Stat) -> ObjectFacts {
    ObjectFacts {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        // In units of 512 bytes, independent of the block size of the file system.
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
        links: u64::from(stat.st_nlink),
        mode: u32::from(stat.st_mode) & 0o7777,
        modified: system_time(stat.st_mtime, u64::try_from(stat.st_mtime_nsec).unwrap_or(0)),
        changed: system_time(stat.st_ctime, u64::try_from(stat.st_ctime_nsec).unwrap_or(0)),
        // A device number is an opaque 32-bit value; its sign has no meaning.
        identity: ObjectIdentity { device: u64::from(stat.st_dev.cast_unsigned()), inode: stat.st_ino },
    }
}
