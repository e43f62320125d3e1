//! Folders that a run closed to everybody, its owner included, opened again for as long as it takes to see what is in
//! them. Only what belongs to this user is: a run can close nothing else.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fstat};
use rustix::process::geteuid;

use crate::folder;
use crate::identity::{self, Number};

/// A folder that its owner may list, search and change until this is dropped. It is remembered by its name and its number
/// and not held open: a run can close more folders than a process may have open files.
#[derive(Debug)]
pub(crate) struct Loosened {
    path: PathBuf,
    file: Number,
    mode: Option<Mode>,
}

impl Loosened {
    /// Nothing, if it is somebody else's or was open before.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Loosened>> {
        let folder = folder::open(path, folder::HANDLE)?;
        let facts = fstat(&folder)?;
        let mode = Mode::from_raw_mode(facts.st_mode);
        if facts.st_uid != geteuid().as_raw() || mode.contains(Mode::RWXU) {
            return Ok(None);
        }
        folder::set_mode(folder.as_fd(), mode | Mode::RWXU)?;
        Ok(Some(Loosened { path: path.to_owned(), file: identity::number(&facts), mode: Some(mode) }))
    }

    /// Leaves it open.
    pub(crate) fn stays(mut self) {
        self.mode = None;
    }

    /// Closes it as it was, if this name still stands for it.
    fn close(&self, mode: Mode) -> io::Result<()> {
        let folder = folder::open(&self.path, folder::HANDLE)?;
        if identity::of_open(&folder)? != self.file {
            return Err(io::Error::other("another folder has its name by now"));
        }
        folder::set_mode(folder.as_fd(), mode)
    }
}

impl Drop for Loosened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode
            && let Err(error) = self.close(mode)
        {
            let path = &self.path;
            tracing::warn!(%error, ?path, "a folder that was opened to look into it stays open to its owner");
        }
    }
}
