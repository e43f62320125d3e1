//! Opens folders by path without following symbolic links: a program that still runs could replace a folder
//! by a link, and have Sinew list or rename the files behind it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Flags of a descriptor that only leads to entries and does not list them.
#[cfg(target_os = "linux")]
pub(crate) const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(crate) const HANDLE: OFlags = OFlags::RDONLY;

/// Opens a folder to list its entries, or to rename them.
#[cfg(target_os = "linux")]
pub(crate) fn open(folder: &Path, what_for: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    let flags = what_for | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(CWD, folder, flags, Mode::empty(), resolve)?)
}

/// Like the Linux version, but checks only the last component of the path for a link.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open(folder: &Path, what_for: OFlags) -> io::Result<OwnedFd> {
    let flags = what_for | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Sets the mode of an open folder, even if it was opened with `O_PATH`.
#[cfg(target_os = "linux")]
pub(crate) fn set_mode(folder: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)?)
}

/// Like the Linux version.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set_mode(folder: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
    Ok(rustix::fs::fchmod(folder, mode)?)
}
