//! Folders under a temporary name, until they are renamed to their own. On drop, whatever has the temporary
//! name is removed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;

use super::InnermostItem;
use crate::opened::{EntryLocation, ObjectIdentity};
use crate::platform;
use crate::replace::is_unsupported_rename;
use crate::tree;
use crate::undo::PendingChange;

/// Permissions that `mkdir` and `open` use for new entries before the umask applies.
const NEW_FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);
const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o666);

#[derive(Debug)]
pub(super) struct StagedFolders<'a> {
    location: &'a EntryLocation,
    name: String,
    journal: &'a PendingChange<'a>,
    /// Outermost folder. Everything else is created through it.
    top: OwnedFd,
    identity: ObjectIdentity,
}

impl<'a> StagedFolders<'a> {
    pub(super) fn create(
        location: &'a EntryLocation,
        name: String,
        journal: &'a PendingChange<'a>,
    ) -> Result<Self, Errno> {
        rustix::fs::mkdirat(&location.folder, &name, NEW_FOLDER_MODE)?;
        let opened = tree::open_folder(&location.folder, OsStr::new(&name))
            .and_then(|top| platform::status(&top).map(|status| (top, status.facts.identity)));
        match opened {
            Ok((top, identity)) => Ok(StagedFolders { location, name, journal, top, identity }),
            Err(errno) => {
                remove_staged(location, &name, journal);
                Err(errno)
            }
        }
    }

    /// Creates everything below the outermost folder, the last name as `last` says, and syncs all of it to
    /// the disk.
    pub(super) fn fill(&self, names: &[OsString], last: InnermostItem<'_>) -> io::Result<()> {
        let (folders, file) = match (last, names.split_last()) {
            (InnermostItem::File { content, .. }, Some((leaf, folders))) => (folders, Some((leaf, content))),
            (InnermostItem::File { .. } | InnermostItem::Folder, _) => (names, None),
        };
        let mut inner: Vec<OwnedFd> = Vec::new();
        for name in folders {
            let above = inner.last().unwrap_or(&self.top);
            rustix::fs::mkdirat(above, name, NEW_FOLDER_MODE)?;
            let made = tree::open_folder(above, name)?;
            inner.push(made);
        }
        if let Some((leaf, content)) = file {
            let mut file = tree::create_file(inner.last().unwrap_or(&self.top), leaf, NEW_FILE_MODE)?;
            file.write_all(content)?;
            platform::sync_file(&file)?;
        }
        let mut handles = inner.iter().rev().chain([&self.top]);
        Ok(handles.try_for_each(rustix::fs::fsync)?)
    }

    /// Renames the folders to their name, which must be free.
    pub(super) fn commit_name(&self) -> Result<(), Errno> {
        match self.rename(&self.name, &self.location.leaf, RenameFlags::NOREPLACE) {
            // A plain rename replaces nothing but an empty folder.
            Err(errno) if is_unsupported_rename(errno) => {
                self.rename(&self.name, &self.location.leaf, RenameFlags::empty())?;
            }
            taken => taken?,
        }
        // If another process put something else under the temporary name, that object has the name now. It
        // stays there.
        if self.has_name(&self.location.leaf) { Ok(()) } else { Err(Errno::EXIST) }
    }

    /// Renames the folders back to the temporary name, if they still have their own.
    pub(super) fn revert_name(&self) {
        if self.has_name(&self.location.leaf)
            && self
                .rename(&self.location.leaf, &self.name, RenameFlags::NOREPLACE)
                .is_err_and(is_unsupported_rename)
        {
            let _ = self.rename(&self.location.leaf, &self.name, RenameFlags::empty());
        }
        if self.has_name(&self.location.leaf) {
            self.journal.keep_saved();
        }
    }

    fn rename(
        &self,
        from: impl rustix::path::Arg,
        to: impl rustix::path::Arg,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.location.folder, from, &self.location.folder, to, flags)
    }

    fn has_name(&self, name: &OsStr) -> bool {
        platform::status_at(&self.location.folder, name)
            .is_ok_and(|status| status.facts.identity == self.identity)
    }
}

impl Drop for StagedFolders<'_> {
    fn drop(&mut self) {
        remove_staged(self.location, &self.name, self.journal);
    }
}

/// Removes what has the temporary name. On failure, recovery at the next start does it.
fn remove_staged(location: &EntryLocation, name: &str, journal: &PendingChange<'_>) {
    if tree::remove_tree(&location.folder, OsStr::new(name)).is_err() {
        journal.leave_for_recovery();
    }
}
