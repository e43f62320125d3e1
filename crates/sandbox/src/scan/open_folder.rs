//! Opens folders by path without following symbolic links: a program that still runs could replace a folder
//! by a link, and have Sinew list or rename the files behind it. Also gives temporary access to folders that a
//! run made inaccessible to their owner.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat};
use rustix::process::geteuid;

use crate::scan::file_identity::{self, FileId};

/// Flags of a descriptor that only leads to entries and does not list them.
#[cfg(target_os = "linux")]
pub(crate) const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(crate) const HANDLE: OFlags = OFlags::RDONLY;

/// Opens a folder to list its entries, or to rename them.
#[cfg(target_os = "linux")]
pub(crate) fn open(folder: &Path, access: OFlags) -> io::Result<OwnedFd> {
    Ok(crate::linux::open_without_links::open(folder, access | OFlags::DIRECTORY)?)
}

/// Like the Linux version.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open(folder: &Path, access: OFlags) -> io::Result<OwnedFd> {
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW_ANY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, rustix::fs::Mode::empty())?)
}

/// Folder with full owner permissions until this is dropped. Only folders of this user are changed, because a
/// run can change no others. It is remembered by path and identity and not
/// kept open: a run can close more folders than a process may have open files.
#[derive(Debug)]
pub(crate) struct TemporaryAccess {
    path: PathBuf,
    file: FileId,
    mode: Option<Mode>,
}

impl TemporaryAccess {
    /// Adds owner permissions to a folder; `None` if it belongs to another user or already has them.
    pub(crate) fn grant(path: &Path) -> io::Result<Option<TemporaryAccess>> {
        let folder = open(path, HANDLE)?;
        let facts = fstat(&folder)?;
        let mode = Mode::from_raw_mode(facts.st_mode);
        if facts.st_uid != geteuid().as_raw() || mode.contains(Mode::RWXU) {
            return Ok(None);
        }
        set_mode(folder.as_fd(), mode | Mode::RWXU)?;
        Ok(Some(TemporaryAccess {
            path: path.to_owned(),
            file: file_identity::file_id(&facts),
            mode: Some(mode),
        }))
    }

    /// Keeps the permissions.
    pub(crate) fn keep(mut self) {
        self.mode = None;
    }

    /// Restores the original mode, if the path still leads to the same folder.
    fn restore(&self, mode: Mode) -> io::Result<()> {
        let folder = open(&self.path, HANDLE)?;
        if file_identity::file_id_of_open(&folder)? != self.file {
            return Err(io::Error::other("another folder is at this path now"));
        }
        set_mode(folder.as_fd(), mode)
    }
}

impl Drop for TemporaryAccess {
    fn drop(&mut self) {
        if let Some(mode) = self.mode
            && let Err(error) = self.restore(mode)
        {
            let path = &self.path;
            tracing::warn!(%error, ?path, "could not restore the permissions of a scanned folder");
        }
    }
}

/// Sets the mode of an open folder, even if it was opened with `O_PATH`.
#[cfg(target_os = "linux")]
fn set_mode(folder: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)?)
}

/// Like the Linux version.
#[cfg(not(target_os = "linux"))]
fn set_mode(folder: BorrowedFd<'_>, mode: Mode) -> io::Result<()> {
    Ok(rustix::fs::fchmod(folder, mode)?)
}
