//! Linux: handles are `O_PATH` descriptors; `/proc/self/fd` gives their canonical names. `openat2` opens them,
//! or `by_name` where it is missing or filtered.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{
    Access, AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags, XattrFlags,
};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::path::DecInt;

use super::by_name::{self, NamedHandles};
use super::{AttributeCopy, FileStatus, system_time};
use crate::opened::{ObjectFacts, ObjectIdentity};

mod component_walk;
use component_walk::Links;

#[cfg(test)]
mod as_macos;
#[cfg(test)]
pub(crate) use as_macos::SEARCH_FLAGS;

/// `PATH_MAX` includes the final NUL.
pub(crate) const MAX_PATH_BYTES: usize = 4095;

/// Number of symbolic links that the kernel follows in one path.
pub(crate) const MAX_SYMLINKS: usize = 40;

/// Suffix that the kernel appends to the name of a deleted object.
const DELETED_SUFFIX: &[u8] = b" (deleted)";

/// Extended attribute of the access control list.
const ACL_ATTRIBUTE: &[u8] = b"system.posix_acl_access";

/// Way in which paths are opened. All ways give the same guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenWay {
    /// The kernel resolves a path in one call.
    Openat2,
    /// The kernel is older than 5.6, or a seccomp filter that does not know `openat2` refuses it.
    ByName,
    /// Like `ByName`, with the handles of macOS.
    #[cfg(test)]
    AsMacos,
}

impl OpenWay {
    /// Returns the way that works in this process. Only the kernel decides: there is no setting.
    fn of_this_process() -> OpenWay {
        static METHOD: OnceLock<OpenWay> = OnceLock::new();
        #[cfg(test)]
        if let Some(method) = as_macos::selected_way() {
            return method;
        }
        if let Some(method) = METHOD.get() {
            return *method;
        }
        match openat2(CWD, OsStr::new("/"), ResolveFlags::NO_MAGICLINKS) {
            Ok(_) => *METHOD.get_or_init(|| OpenWay::Openat2),
            // The root directory can be opened, so this is about the call and not about the path. Filters of
            // container engines answer `EPERM`.
            Err(Errno::NOSYS | Errno::PERM) => *METHOD.get_or_init(|| OpenWay::ByName),
            // Such as `EMFILE`, which the call itself will meet and report.
            Err(_) => OpenWay::Openat2,
        }
    }
}

/// Opens a path as a handle, without reading, blocking or following magic links.
pub(crate) fn open_handle(path: &Path) -> Result<OwnedFd, Errno> {
    open(CWD, path.as_os_str())
}

/// Opens a path as a handle from the dentry cache: `EAGAIN` if the lookup would reach a disk or a network, and
/// `ELOOP` if the path contains a symbolic link.
pub(crate) fn open_without_links_cached(path: &Path) -> Result<OwnedFd, Errno> {
    match OpenWay::of_this_process() {
        OpenWay::Openat2 => {
            let how = ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS | ResolveFlags::CACHED;
            openat2(CWD, path.as_os_str(), how)
        }
        _ => Err(Errno::AGAIN),
    }
}

/// Returns the cached status of a handle, without asking a network file system.
pub(crate) fn status_cached(handle: &OwnedFd) -> Option<FileStatus> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(handle, "", flags, StatxFlags::BASIC_STATS).ok()?;
    if !StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BASIC_STATS) {
        return None;
    }
    let mode = u32::from(stat.stx_mode);
    let facts = ObjectFacts {
        size: stat.stx_size,
        allocated: stat.stx_blocks.saturating_mul(512),
        links: u64::from(stat.stx_nlink),
        mode: mode & 0o7777,
        modified: system_time(stat.stx_mtime.tv_sec, u64::from(stat.stx_mtime.tv_nsec)),
        changed: system_time(stat.stx_ctime.tv_sec, u64::from(stat.stx_ctime.tv_nsec)),
        identity: ObjectIdentity {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
        },
    };
    Some(FileStatus { kind: FileType::from_raw_mode(mode), facts })
}

/// Returns true if the object is on a local disk or in memory. May block if the volume is remote.
pub(crate) fn is_local(handle: &OwnedFd) -> bool {
    rustix::fs::fstatfs(handle)
        .is_ok_and(|fs| LOCAL_FILESYSTEMS.iter().any(|magic| i128::from(fs.f_type) == *magic))
}

/// Magic numbers of ext2–4, XFS, Btrfs, F2FS, bcachefs, ZFS, tmpfs and overlay. Every other file system
/// counts as remote.
const LOCAL_FILESYSTEMS: [i128; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630];

/// Reads from the page cache only: `EAGAIN` if the data is not cached.
pub(crate) fn read_cached(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    rustix::io::preadv2(file, &mut [std::io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
}

/// Opens one component below a handle.
pub(crate) fn open_handle_at(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    open(folder.as_fd(), name)
}

/// Opens a path and fails if it contains a symbolic link.
pub(crate) fn open_handle_nofollow(path: &Path) -> Result<OwnedFd, Errno> {
    match OpenWay::of_this_process() {
        OpenWay::Openat2 => {
            openat2(CWD, path.as_os_str(), ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS)
        }
        OpenWay::ByName => ReferringHandles::open_without_links(path),
        #[cfg(test)]
        OpenWay::AsMacos => as_macos::ReadableHandles::open_without_links(path),
    }
}

fn open(folder: BorrowedFd<'_>, path: &OsStr) -> Result<OwnedFd, Errno> {
    match OpenWay::of_this_process() {
        OpenWay::Openat2 => openat2(folder, path, ResolveFlags::NO_MAGICLINKS),
        OpenWay::ByName => by_name::open_confirmed::<ReferringHandles>(folder, path),
        #[cfg(test)]
        OpenWay::AsMacos => by_name::open_confirmed::<as_macos::ReadableHandles>(folder, path),
    }
}

fn openat2(folder: BorrowedFd<'_>, path: &OsStr, how: ResolveFlags) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat2(folder, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how))
}

/// `O_PATH` descriptors without `openat2`.
struct ReferringHandles;

impl NamedHandles for ReferringHandles {
    fn open(folder: BorrowedFd<'_>, path: &OsStr) -> Result<OwnedFd, Errno> {
        // The kernel resolves the path first, because only it knows all rules about links, such as
        // `fs.protected_symlinks`. It also follows magic links, which the walk then finds. If a link is
        // exchanged between the two, the object is still judged by its own name.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::openat(folder, path, flags, Mode::empty()))?;
        component_walk::open(folder, path, Links::FollowText)?;
        Ok(opened)
    }

    fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
        component_walk::open(CWD, path.as_os_str(), Links::Refuse)
    }

    fn current_path(handle: &OwnedFd) -> Result<PathBuf, Errno> {
        path_of(handle, &super::status(handle)?.facts)
    }
}

/// Returns true if the link that could not be followed is a magic link of procfs.
pub(crate) fn is_magic_link(folder: &OwnedFd, errno: Errno) -> bool {
    errno == Errno::LOOP
        && rustix::fs::fstatfs(folder).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// Returns the canonical path of a handle; `ENOENT` if its object was deleted.
pub(crate) fn path_of(handle: &OwnedFd, facts: &ObjectFacts) -> Result<PathBuf, Errno> {
    let name = rustix::fs::readlinkat(fd_table()?, fd_name(handle), Vec::new())?;
    let name = PathBuf::from(OsString::from_vec(name.into_bytes()));
    if !name.is_absolute() {
        return Err(Errno::NOENT);
    }
    // The name of an existing file may really end like this. Then the name leads back to the same object.
    if name.as_os_str().as_bytes().ends_with(DELETED_SUFFIX) {
        let there = rustix::fs::statat(CWD, &name, AtFlags::SYMLINK_NOFOLLOW).map(FileStatus::from)?;
        if there.facts.identity != facts.identity {
            return Err(Errno::NOENT);
        }
    }
    Ok(name)
}

/// Reopens the object of a handle for reading, without a path lookup.
pub(crate) fn reopen_for_reading(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    #[cfg(test)]
    if OpenWay::of_this_process() == OpenWay::AsMacos {
        return super::readable_handle::reopen_for_reading(handle);
    }
    reopen(handle, OFlags::NONBLOCK | OFlags::NOCTTY)
}

/// Reopens the directory of a handle for listing and syncing.
pub(crate) fn reopen_directory(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    #[cfg(test)]
    if OpenWay::of_this_process() == OpenWay::AsMacos {
        return as_macos::reopen_directory(handle);
    }
    reopen(handle, OFlags::DIRECTORY)
}

fn reopen(handle: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    let table = fd_table()?;
    retry_on_intr(|| rustix::fs::openat(table, fd_name(handle), flags, Mode::empty()))
}

/// Checks that this process may write to the object in place.
pub(crate) fn check_write_access(handle: &OwnedFd, folder: &OwnedFd, leaf: &OsStr) -> Result<(), Errno> {
    #[cfg(test)]
    if OpenWay::of_this_process() == OpenWay::AsMacos {
        return super::readable_handle::check_write_access(handle, folder, leaf);
    }
    let _ = (folder, leaf);
    rustix::fs::accessat(fd_table()?, fd_name(handle), Access::WRITE_OK, AtFlags::empty())
}

/// Returns the directory of this process's own descriptors, the only place where magic links are followed. It
/// stays open, because resolving `/proc/self/fd` again takes longer than the lookup in it.
fn fd_table() -> Result<BorrowedFd<'static>, Errno> {
    static TABLE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(table) = TABLE.get() {
        return Ok(table.as_fd());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| rustix::fs::open("/proc/self/fd", flags, Mode::empty()))?;
    Ok(TABLE.get_or_init(|| opened).as_fd())
}

/// Returns the name of a handle in `fd_table`.
fn fd_name(handle: &OwnedFd) -> DecInt {
    DecInt::from_fd(handle)
}

/// Continues to read a directory at a position, which the file system has given to an entry.
pub(crate) fn seek_directory(names: &mut Dir, position: u64) -> Result<(), Errno> {
    names.seek(position.cast_signed())
}

/// Returns the position after an entry.
pub(crate) fn position_after(entry: &DirEntry, _before: u64) -> u64 {
    entry.offset().cast_unsigned()
}

/// Waits until the content is on the disk.
pub(crate) fn sync_file(file: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fsync(file)
}

/// Copies `user.*` attributes and the access control list. Labels and capabilities are left to the system.
pub(crate) fn copy_attributes(from: &OwnedFd, to: impl AsFd) -> AttributeCopy {
    let names = match attribute_names(from) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return AttributeCopy::Complete,
        Err(_) => return AttributeCopy::WithoutAcl,
    };
    let (lists, others): (Vec<_>, Vec<_>) =
        names.split(|byte| *byte == 0).partition(|name| *name == ACL_ATTRIBUTE);
    for name in others.into_iter().filter(|name| name.starts_with(b"user.")) {
        let _ = copy_attribute(from, to.as_fd(), name);
    }
    // The list comes last: it may remove our own write permission, which the attributes need.
    let copied = match lists.first() {
        Some(name) => copy_attribute(from, to.as_fd(), name),
        // A new file may inherit a list from its folder, although the old file had none.
        None => match rustix::fs::fremovexattr(to.as_fd(), ACL_ATTRIBUTE) {
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
            removed => removed,
        },
    };
    if copied.is_ok() { AttributeCopy::Complete } else { AttributeCopy::WithoutAcl }
}

fn attribute_names(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut names = vec![0; rustix::fs::flistxattr_query(file)?];
    let length = rustix::fs::flistxattr(file, names.as_mut_slice())?;
    names.truncate(length);
    Ok(names)
}

fn copy_attribute(from: &OwnedFd, to: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let mut value = vec![0; rustix::fs::fgetxattr_query(from, name)?];
    let length = rustix::fs::fgetxattr(from, name, value.as_mut_slice())?;
    value.truncate(length);
    rustix::fs::fsetxattr(to, name, &value, XattrFlags::empty())
}

pub(crate) fn facts(stat: &Stat) -> ObjectFacts {
    ObjectFacts {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        // In units of 512 bytes, independent of the block size of the file system.
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
        links: stat.st_nlink,
        mode: stat.st_mode & 0o7777,
        modified: system_time(stat.st_mtime, stat.st_mtime_nsec),
        changed: system_time(stat.st_ctime, stat.st_ctime_nsec),
        identity: ObjectIdentity { device: stat.st_dev, inode: stat.st_ino },
    }
}
