//! Folders opened by name through no link: a program that is still there could put one in a folder's place, and have us
//! list or rename what is behind it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// What a handle needs that only leads to names, and does not list them.
#[cfg(target_os = "linux")]
pub(crate) const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(crate) const HANDLE: OFlags = OFlags::RDONLY;

/// Opens a folder to read its names, or to rename what is in it.
#[cfg(target_os = "linux")]
pub(crate) fn open(folder: &Path, what_for: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{CWD, ResolveFlags, openat2};
    let flags = what_for | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(CWD, folder, flags, Mode::empty(), resolve)?)
}

/// The same as far as this system goes: the last name is no link.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open(folder: &Path, what_for: OFlags) -> io::Result<OwnedFd> {
    let flags = what_for | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Sets the mode of an open folder, also of one that is open only by its name.
#[cfg(target_os = "linux")]
pub(crate) fn set_mode(folder: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)?)
}

/// The same.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set_mode(folder: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
    Ok(rustix::fs::fchmod(folder, mode)?)
}
