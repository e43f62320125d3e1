//! Folders under a temporary name, until they take their own. Whatever has the temporary name when this is dropped is
//! removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::Last;
use crate::opened::{Identity, Place};
use crate::platform;
use crate::replace::is_unsupported;
use crate::tree;
use crate::undo::Pending;

/// What `mkdir` gives a new folder, and `open` a new file, before the umask takes its part.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

#[derive(Debug)]
pub(super) struct Scaffold<'a> {
    place: &'a Place,
    name: String,
    journal: &'a Pending<'a>,
    /// The outermost folder. What else is made is made through it.
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

    /// Makes what is below the outermost folder, the last of the names as what is wanted there, and waits until all of it is
    /// on the disk.
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
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let above = inner.last().unwrap_or(&self.top);
            let mut file = File::from(rustix::fs::openat(above, leaf, flags, NEW_FILE)?);
            file.write_all(content)?;
            platform::sync_file(&file)?;
        }
        let mut handles = inner.iter().rev().chain([&self.top]);
        Ok(handles.try_for_each(rustix::fs::fsync)?)
    }

    /// Gives the folders their name, which nothing else may have.
    pub(super) fn take_name(&self) -> Result<(), Errno> {
        match self.rename(&self.name, &self.place.leaf, RenameFlags::NOREPLACE) {
            // A plain rename puts a folder over nothing but an empty folder.
            Err(errno) if is_unsupported(errno) => {
                self.rename(&self.name, &self.place.leaf, RenameFlags::empty())?;
            }
            taken => taken?,
        }
        // Whoever put something else under the temporary name has given that the name now, and may have it.
        if self.is_at(&self.place.leaf) { Ok(()) } else { Err(Errno::EXIST) }
    }

    /// Takes the name away again, if these folders still have it.
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

/// Removes what has a temporary name, or leaves that to the next start.
fn clear(place: &Place, name: &str, journal: &Pending<'_>) {
    if tree::clear(&place.folder, OsStr::new(name)).is_err() {
        journal.leave();
    }
}
