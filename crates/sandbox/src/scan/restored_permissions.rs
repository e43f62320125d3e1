//! Temporary access to folders that a run made inaccessible to their owner, for as long as a scan needs it.
//! Only folders of this user are changed, because a run can change no others.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fstat};
use rustix::process::geteuid;

use crate::scan::file_identity::{self, Number};
use crate::scan::open_folder;

/// Folder with full owner permissions until this is dropped. It is remembered by path and identity and not
/// kept open: a run can close more folders than a process may have open files.
#[derive(Debug)]
pub(crate) struct Loosened {
    path: PathBuf,
    file: Number,
    mode: Option<Mode>,
}

impl Loosened {
    /// Adds owner permissions to a folder; `None` if it belongs to another user or already has them.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Loosened>> {
        let folder = open_folder::open(path, open_folder::HANDLE)?;
        let facts = fstat(&folder)?;
        let mode = Mode::from_raw_mode(facts.st_mode);
        if facts.st_uid != geteuid().as_raw() || mode.contains(Mode::RWXU) {
            return Ok(None);
        }
        open_folder::set_mode(folder.as_fd(), mode | Mode::RWXU)?;
        Ok(Some(Loosened { path: path.to_owned(), file: file_identity::number(&facts), mode: Some(mode) }))
    }

    /// Keeps the permissions.
    pub(crate) fn stays(mut self) {
        self.mode = None;
    }

    /// Restores the original mode, if the path still leads to the same folder.
    fn close(&self, mode: Mode) -> io::Result<()> {
        let folder = open_folder::open(&self.path, open_folder::HANDLE)?;
        if file_identity::of_open(&folder)? != self.file {
            return Err(io::Error::other("another folder is at this path now"));
        }
        open_folder::set_mode(folder.as_fd(), mode)
    }
}

impl Drop for Loosened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode
            && let Err(error) = self.close(mode)
        {
            let path = &self.path;
            tracing::warn!(%error, ?path, "could not restore the permissions of a scanned folder");
        }
    }
}
