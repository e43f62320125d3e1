//! Folders that a run closed to everybody, its owner included, opened again for as long as it takes to see what is in
//! them. Only what belongs to this user is: a run can close nothing else.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, fstat};
use rustix::process::geteuid;

use crate::folder;

/// A folder that its owner may list, search and change until this is dropped.
#[derive(Debug)]
pub(crate) struct Loosened {
    folder: OwnedFd,
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
        Ok(Some(Loosened { folder, mode: Some(mode) }))
    }

    /// Leaves it open.
    pub(crate) fn stays(mut self) {
        self.mode = None;
    }
}

impl Drop for Loosened {
    fn drop(&mut self) {
        if let Some(mode) = self.mode
            && let Err(error) = folder::set_mode(self.folder.as_fd(), mode)
        {
            tracing::warn!(%error, "a folder that was opened to look into it stays open to its owner");
        }
    }
}
