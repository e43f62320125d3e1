//! macOS: there is no descriptor that only refers to an object, so handles are those of `readable_handle`.
//! Their names come from `F_GETPATH` and are confirmed by `by_name`.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, DirEntry, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::by_name::{self, NamedHandles};
use super::readable_handle::{self, DIRECTORY_FLAGS, name_below_root};
use super::{FileStatus, system_time};
use crate::opened::{ObjectFacts, ObjectIdentity};

mod copyfile;
pub(crate) use copyfile::copy_attributes;

pub(crate) use super::readable_handle::{check_write_access, reopen_for_reading};

/// `PATH_MAX` includes the final NUL.
pub(crate) const MAX_PATH_BYTES: usize = 1023;

/// Number of symbolic links that the kernel follows in one path.
pub(crate) const MAX_SYMLINKS: usize = 32;

/// Mount point of the writable volume, whose folders appear at the root as firmlinks.
const DATA_VOLUME: &str = "/System/Volumes/Data";

/// `O_SEARCH`: opens a directory that may be traversed but not listed.
pub(crate) const SEARCH_FLAGS: OFlags = OFlags::from_bits_retain(0x4000_0000);

/// Opens a path as a handle, without blocking or opening a special file.
pub(crate) fn open_handle(path: &Path) -> Result<OwnedFd, Errno> {
    by_name::open_confirmed::<ReadableHandles>(CWD, path.as_os_str())
}

/// Always fails: macOS cannot open from its caches only.
pub(crate) fn open_without_links_cached(_path: &Path) -> Result<OwnedFd, Errno> {
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

/// Continues to read a directory at a position. It is a number of entries, because positions of macOS are valid in one
/// stream only.
pub(crate) fn seek_directory(names: &mut Dir, position: u64) -> Result<(), Errno> {
    for _ in 0..position {
        let Some(name) = names.read() else { break };
        name?;
    }
    Ok(())
}

/// Returns the position after an entry.
pub(crate) fn position_after(_entry: &DirEntry, before: u64) -> u64 {
    before + 1
}

/// Opens one component below a handle.
pub(crate) fn open_handle_at(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    by_name::open_confirmed::<ReadableHandles>(folder.as_fd(), name)
}

/// Opens a path and fails if it contains a symbolic link.
pub(crate) fn open_handle_nofollow(path: &Path) -> Result<OwnedFd, Errno> {
    ReadableHandles::open_without_links(path)
}

/// Descriptors for reading.
struct ReadableHandles;

impl NamedHandles for ReadableHandles {
    fn open(folder: BorrowedFd<'_>, path: &OsStr) -> Result<OwnedFd, Errno> {
        readable_handle::open(folder, path, OFlags::empty(), SEARCH_FLAGS)
    }

    fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
        readable_handle::open(CWD, path.as_os_str(), OFlags::NOFOLLOW_ANY, SEARCH_FLAGS)
    }

    fn current_path(handle: &OwnedFd) -> Result<PathBuf, Errno> {
        let name = PathBuf::from(OsString::from_vec(rustix::fs::getpath(handle)?.into_bytes()));
        if name.is_absolute() { Ok(name) } else { Err(Errno::NOENT) }
    }
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
    let name = ReadableHandles::current_path(handle)?;
    let below_root = name_below_root(&name, (Path::new(DATA_VOLUME), Path::new("/")), facts.identity);
    Ok(below_root.unwrap_or(name))
}

/// Opens the directory again, for listing and syncing.
pub(crate) fn reopen_directory(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    readable_handle::reopen_directory(handle, || {
        let (name, flags) = (ReadableHandles::current_path(handle)?, DIRECTORY_FLAGS | OFlags::NOFOLLOW_ANY);
        retry_on_intr(|| rustix::fs::openat(CWD, &name, flags, Mode::empty()))
    })
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
