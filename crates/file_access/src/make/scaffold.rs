//! Folders under a temporary name, until they are renamed to their own. On drop, whatever has the temporary
//! name is removed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;

use super::Last;
use crate::opened::{Identity, Place};
use crate::platform;
use crate::replace::is_unsupported;
use crate::tree;
use crate::undo::Pending;

/// Permissions that `mkdir` and `open` use for new entries before the umask applies.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

#[derive(Debug)]
pub(super) struct Scaffold<'a> {
    place: &'a Place,
    name: String,
    journal: &'a Pending<'a>,
    /// Outermost folder. Everything else is created through it.
    top: OwnedFd,
    identity: Identity,
}

impl<'a> Scaffold<'a> {
    pub(super) fn begin(place: &'a Place, name: String, journal: &'a Pending<'a>) -> Result<Self, Errno> {
        rustix::fs::mkdirat(&place.folder, &name, NEW_FOLDER)?;
        let opened = tree::open_folder(&place.folder, OsStr::new(&name))
            .and_then(|top| platform::status(&top).map(|status| (top, status.facts.identity)));
        match opened {
            Ok((top, identity)) => Ok(Scaffold { place, name, journal, top, identity }),
            Err(errno) => {
                clear(place, &name, journal);
                Err(errno)
            }
        }
    }

    /// Creates everything below the outermost folder, the last name as `last` says, and syncs all of it to
    /// the disk.
    pub(super) fn fill(&self, names: &[OsString], last: Last<'_>) -> io::Result<()> {
        let (folders, file) = match (last, names.split_last()) {
            (Last::File { content, .. }, Some((leaf, folders))) => (folders, Some((leaf, content))),
            (Last::File { .. } | Last::Folder, _) => (names, None),
        };
        let mut inner: Vec<OwnedFd> = Vec::new();
        for name in folders {
            let above = inner.last().unwrap_or(&self.top);
            rustix::fs::mkdirat(above, name, NEW_FOLDER)?;
            let made = tree::open_folder(above, name)?;
            inner.push(made);
        }
        if let Some((leaf, content)) = file {
            let mut file = tree::create_file(inner.last().unwrap_or(&self.top), leaf, NEW_FILE)?;
            file.write_all(content)?;
            platform::sync_file(&file)?;
        }
        let mut handles = inner.iter().rev().chain([&self.top]);
        Ok(handles.try_for_each(rustix::fs::fsync)?)
    }

    /// Renames the folders to their name, which must be free.
    pub(super) fn take_name(&self) -> Result<(), Errno> {
        match self.rename(&self.name, &self.place.leaf, RenameFlags::NOREPLACE) {
            // A plain rename replaces nothing but an empty folder.
            Err(errno) if is_unsupported(errno) => {
                self.rename(&self.name, &self.place.leaf, RenameFlags::empty())?;
            }
            taken => taken?,
        }
        // If another process put something else under the temporary name, that object has the name now. It
        // stays there.
        if self.is_at(&self.place.leaf) { Ok(()) } else { Err(Errno::EXIST) }
    }

    /// Renames the folders back to the temporary name, if they still have their own.
    pub(super) fn give_name_back(&self) {
        if self.is_at(&self.place.leaf)
            && self.rename(&self.place.leaf, &self.name, RenameFlags::NOREPLACE).is_err_and(is_unsupported)
        {
            let _ = self.rename(&self.place.leaf, &self.name, RenameFlags::empty());
        }
        if self.is_at(&self.place.leaf) {
            self.journal.keep();
        }
    }

    fn rename(
        &self,
        from: impl rustix::path::Arg,
        to: impl rustix::path::Arg,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.place.folder, from, &self.place.folder, to, flags)
    }

    fn is_at(&self, name: &OsStr) -> bool {
        platform::status_at(&self.place.folder, name)
            .is_ok_and(|status| status.facts.identity == self.identity)
    }
}

impl Drop for Scaffold<'_> {
    fn drop(&mut self) {
        clear(self.place, &self.name, self.journal);
    }
}

/// Removes what has the temporary name. On failure, recovery at the next start does it.
fn clear(place: &Place, name: &str, journal: &Pending<'_>) {
    if tree::clear(&place.folder, OsStr::new(name)).is_err() {
        journal.leave();
    }
}
