//! Removal of a name, with its object saved for undo.
//!
//! One rename moves the whole object into the undo store, so that no other process can exchange a part of it
//! meanwhile. If the store is on another volume, the object is copied first, and removed only if it is still
//! what was copied.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, RenameFlags};
use rustix::io::Errno;

use crate::error::AccessError;
use crate::list::EntryKind;
use crate::opened::{EntryLocation, ObjectIdentity, OpenedObject, OpenedPath};
use crate::platform;
use crate::replace::{ContentPrecondition, NameLock, file_sha256, new_temporary_name};
use crate::tree::{self, TreeEntry, VisitAction};
use crate::undo::{ChangeRecorder, PendingChange, RemovalSize};
use crate::undo::{CreatedTree, SavedAs, StateBefore};

/// Handling of folders in a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderRemoval {
    /// Only files and links are removed.
    Refuse,
    /// A folder is removed with everything in it.
    Recursive,
}

/// Rule that protects entries below a folder from removal.
pub struct RemovalGuard<'a>(GuardRule<'a>);

enum GuardRule<'a> {
    Predicate(&'a dyn Fn(&Path) -> bool),
    AllExcept(&'a CreatedTree),
}

impl<'a> RemovalGuard<'a> {
    /// Protects the canonical paths for which the predicate returns true.
    pub fn from_predicate(rule: &'a dyn Fn(&Path) -> bool) -> Self {
        RemovalGuard(GuardRule::Predicate(rule))
    }

    pub(crate) fn none() -> RemovalGuard<'static> {
        RemovalGuard(GuardRule::Predicate(&|_| false))
    }

    /// Protects everything that the call did not create, or that has changed since.
    pub(crate) fn all_except(made: &'a CreatedTree) -> Self {
        RemovalGuard(GuardRule::AllExcept(made))
    }

    /// Returns the reason why an entry must stay, or `None` if it may be removed.
    fn reason_to_keep(&self, name: &Path, found: &TreeEntry<'_>) -> Option<&'static str> {
        match self.0 {
            GuardRule::Predicate(rule) => rule(name).then_some("is protected"),
            GuardRule::AllExcept(made) => (!made.contains(found)).then_some("is not what the call created"),
        }
    }
}

/// Summary of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalSummary {
    /// `file`, `symlink` or `directory`.
    pub kind: &'static str,
    /// Number of removed names, including those below a folder.
    pub entries: u64,
    /// Total size of the removed files.
    pub bytes: u64,
}

impl OpenedPath {
    /// Returns what a removal would remove, or the reason why it is not possible.
    pub fn preview_removal(
        &self,
        descent: FolderRemoval,
        protects: &RemovalGuard<'_>,
    ) -> Result<RemovalSummary, AccessError> {
        let location = self.removal_location()?;
        match &self.object {
            OpenedObject::File { handle, facts, .. } => {
                platform::check_write_access(handle, &location.folder, &location.leaf)
                    .map_err(|errno| self.removal_error(errno))?;
                Ok(RemovalSummary { kind: "file", entries: 1, bytes: facts.size })
            }
            OpenedObject::Link { .. } => Ok(RemovalSummary { kind: "symlink", entries: 1, bytes: 0 }),
            OpenedObject::Directory { .. } if descent == FolderRemoval::Refuse => {
                Err(self.wrong_kind_error("file"))
            }
            OpenedObject::Directory { handle, facts, .. } => {
                let readable =
                    platform::reopen_directory(handle).map_err(|errno| self.removal_error(errno))?;
                self.count_entries(readable, facts.identity, protects)
            }
            OpenedObject::Special { .. } | OpenedObject::Unresolved { .. } => {
                Err(self.wrong_kind_error("file"))
            }
        }
    }

    /// Removes the opened object, if the name still leads to it. On any error everything is unchanged.
    pub fn remove(
        &self,
        expected: &ContentPrecondition,
        descent: FolderRemoval,
        protects: &RemovalGuard<'_>,
        recorder: &ChangeRecorder,
    ) -> Result<RemovalSummary, AccessError> {
        let removed = self.preview_removal(descent, protects)?;
        let location = self.removal_location()?;
        let _name_lock = NameLock::acquire(location).map_err(|errno| self.removal_error(errno))?;
        let mode = self.metadata().map_or(0, |facts| facts.mode);
        let before = match &self.object {
            OpenedObject::Link { text, .. } => StateBefore::Link { text: text.clone() },
            OpenedObject::Directory { .. } => {
                StateBefore::Folder { saved_as: self.storage_for_move(location, recorder)? }
            }
            _ => {
                StateBefore::File { sha256: None, mode, saved_as: self.storage_for_move(location, recorder)? }
            }
        };
        let temporary = new_temporary_name()
            .map_err(|error| AccessError::io("naming a temporary file for", &self.canonical, error))?;
        let weight = RemovalSize { allocated: self.disk_usage(&removed), copy_bytes: removed.bytes };
        let mut pending = recorder.before_removal(location, before, weight, &temporary)?;
        let taken = match &self.object {
            OpenedObject::Link { .. } => self.rename_and_delete(location, &pending, expected, None),
            _ => match pending.move_into_store(location) {
                Ok(()) => self
                    .check_moved(location, &pending, expected, protects)
                    .and_then(|()| self.sync_moved(location, &pending)),
                Err(Errno::XDEV) => self.copy_and_remove(location, &mut pending, expected, protects),
                Err(Errno::NOENT) => Err(self.conflict_error("it does not exist any more")),
                Err(errno) => Err(self.removal_error(errno)),
            },
        };
        taken?;
        pending.finish();
        Ok(removed)
    }

    /// Returns the size on disk. Files in a folder count in full, since few of them are sparse.
    fn disk_usage(&self, removed: &RemovalSummary) -> u64 {
        match &self.object {
            OpenedObject::File { facts, .. } => facts.allocated.min(facts.size),
            _ => removed.bytes,
        }
    }

    /// Returns the storage form of a moved object, with the seal of its current state.
    fn storage_for_move(
        &self,
        location: &EntryLocation,
        recorder: &ChangeRecorder,
    ) -> Result<SavedAs, AccessError> {
        if recorder.is_disabled() {
            return Ok(SavedAs::Moved { seal: None });
        }
        match tree::seal(&location.folder, &location.leaf) {
            Ok(seal) => Ok(SavedAs::Moved { seal: Some(seal) }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.conflict_error("it does not exist any more"))
            }
            Err(error) => Err(AccessError::io("inspecting", &self.canonical, error)),
        }
    }

    /// Checks the moved object, which other processes can no longer reach by its name. If the check fails,
    /// the object is put back.
    fn check_moved(
        &self,
        location: &EntryLocation,
        pending: &PendingChange<'_>,
        expected: &ContentPrecondition,
        protects: &RemovalGuard<'_>,
    ) -> Result<(), AccessError> {
        let (folder, name) = pending.moved_entry();
        let Err(error) = self.check_removed(folder, OsStr::new(&name), expected, protects) else {
            return Ok(());
        };
        match pending.move_back(location) {
            Ok(()) => Err(error),
            Err(errno) => {
                let reason = format!(
                    "{error}; it could not be restored ({errno}): run `sinew undo` with the id of this call"
                );
                Err(AccessError::io("removing", &self.canonical, std::io::Error::other(reason)))
            }
        }
    }

    /// Makes the move durable, or reverts it.
    fn sync_moved(&self, location: &EntryLocation, pending: &PendingChange<'_>) -> Result<(), AccessError> {
        let synced = location.sync().map_err(|errno| self.removal_error(errno));
        synced.and_then(|()| pending.sync_store(&self.canonical)).inspect_err(|_| {
            if pending.move_back(location).is_err() {
                pending.keep_saved();
            }
        })
    }

    /// Removes an object if the undo store is on another volume: copies it, renames it to the temporary name,
    /// and deletes it if it is still what was copied.
    fn copy_and_remove(
        &self,
        location: &EntryLocation,
        pending: &mut PendingChange<'_>,
        expected: &ContentPrecondition,
        protects: &RemovalGuard<'_>,
    ) -> Result<(), AccessError> {
        let failed = |error: std::io::Error| AccessError::io("saving", &self.canonical, error);
        let seen = self.fingerprint().map_err(failed)?;
        pending.copy_into_store(location).map_err(failed)?;
        self.rename_and_delete(location, pending, expected, Some((&seen, protects)))
    }

    /// Renames the object to the temporary name, checks that it is the right one, and deletes it.
    fn rename_and_delete(
        &self,
        location: &EntryLocation,
        pending: &PendingChange<'_>,
        expected: &ContentPrecondition,
        copied: Option<(&tree::TreeFingerprint, &RemovalGuard<'_>)>,
    ) -> Result<(), AccessError> {
        let quarantined = OsStr::new(pending.temporary());
        let rename = |from: &OsStr, to: &OsStr| {
            rustix::fs::renameat_with(&location.folder, from, &location.folder, to, RenameFlags::NOREPLACE)
        };
        rename(&location.leaf, quarantined).map_err(|errno| match errno {
            Errno::NOENT => self.conflict_error("it does not exist any more"),
            errno => self.removal_error(errno),
        })?;
        let nothing = RemovalGuard::none();
        let protects = copied.map_or(&nothing, |(_, protects)| protects);
        let mut checked = self.check_removed(&location.folder, quarantined, expected, protects);
        if let Some((seen, _)) = copied
            && checked.is_ok()
            && self.fingerprint().ok().as_ref() != Some(seen)
        {
            checked = Err(self.conflict_error("it was changed while it was being removed"));
        }
        // The deletion cannot be reverted, so the rename must be durable before it.
        let checked = checked.and_then(|()| location.sync().map_err(|errno| self.removal_error(errno)));
        if let Err(error) = checked {
            return match rename(quarantined, &location.leaf) {
                Ok(()) => Err(error),
                Err(errno) => {
                    pending.keep_saved();
                    Err(self.removal_error(errno))
                }
            };
        }
        tree::remove_tree(&location.folder, quarantined).map_err(|errno| {
            // A folder may be partly deleted, but all of it is saved. Any other object is either there or
            // not.
            let is_whole = !matches!(self.object, OpenedObject::Directory { .. });
            if !is_whole || rename(quarantined, &location.leaf).is_err() {
                pending.keep_saved();
            }
            self.removal_error(errno)
        })
    }

    /// Checks that a name leads to the opened object, with the expected content and no protected entry.
    fn check_removed(
        &self,
        folder: &std::os::fd::OwnedFd,
        name: &OsStr,
        expected: &ContentPrecondition,
        protects: &RemovalGuard<'_>,
    ) -> Result<(), AccessError> {
        let status = platform::status_at(folder, name).map_err(|errno| self.removal_error(errno))?;
        let opened = self.metadata().map(|facts| facts.identity);
        if Some(status.facts.identity) != opened {
            return Err(self.conflict_error("another object is there now"));
        }
        if let ContentPrecondition::Content { sha256 } = expected
            && status.kind == FileType::RegularFile
        {
            let now = file_sha256(folder, Path::new(name))
                .map_err(|error| AccessError::io("comparing", &self.canonical, error))?;
            if !now.eq_ignore_ascii_case(sha256) {
                return Err(self.conflict_error(&format!("its sha256 is now {now}")));
            }
        }
        if status.kind == FileType::Directory {
            let opened = tree::open_folder(folder, name).map_err(|errno| self.removal_error(errno))?;
            self.count_entries(opened, status.facts.identity, protects)?;
        }
        Ok(())
    }

    /// Counts the entries of a folder. Fails if one of them is protected or cannot be inspected.
    fn count_entries(
        &self,
        folder: std::os::fd::OwnedFd,
        top: ObjectIdentity,
        protects: &RemovalGuard<'_>,
    ) -> Result<RemovalSummary, AccessError> {
        let mut removed = RemovalSummary { kind: "directory", entries: 1, bytes: 0 };
        let mut blocker: Option<(PathBuf, &'static str)> = None;
        let unseen = tree::walk_tree(folder, &mut |found| {
            removed.entries += 1;
            removed.bytes += found.entry.size.filter(|_| found.entry.kind == EntryKind::File).unwrap_or(0);
            let name = self.canonical.join(found.relative);
            if let Some(reason) = protects.reason_to_keep(&name, found) {
                blocker = Some((name, reason));
            } else if found.device().is_some_and(|device| device != top.device) {
                blocker = Some((name, "is on another volume"));
            } else if found.entry.kind == EntryKind::Unreadable {
                blocker = Some((name, "cannot be inspected"));
            }
            if blocker.is_some() { VisitAction::Stop } else { VisitAction::Enter }
        });
        let unseen = unseen.map_err(|errno| self.removal_error(errno))?;
        let unread = unseen.unreadable.first().map(|path| (self.canonical.join(path), "cannot be read"));
        if let Some((inner, reason)) = blocker.or(unread) {
            return Err(AccessError::Blocked { path: self.canonical.clone(), inner, reason });
        }
        if unseen.truncated {
            let (path, inner) = (self.canonical.clone(), self.canonical.clone());
            return Err(AccessError::Blocked { path, inner, reason: "has more entries than can be checked" });
        }
        Ok(removed)
    }

    fn fingerprint(&self) -> std::io::Result<tree::TreeFingerprint> {
        match &self.object {
            OpenedObject::Directory { handle, .. } => tree::fingerprint(&platform::reopen_directory(handle)?),
            OpenedObject::File { handle, .. } => {
                let facts = platform::status(handle)?.facts;
                let seen = (facts.identity.inode, facts.size, Some(facts.modified));
                Ok(tree::TreeFingerprint::from([(PathBuf::new(), seen)]))
            }
            _ => Ok(tree::TreeFingerprint::new()),
        }
    }

    /// Returns the location that a removal renames from, if its folder still has the path that was judged.
    fn removal_location(&self) -> Result<&EntryLocation, AccessError> {
        let location = match &self.object {
            OpenedObject::File { location: Some(location), .. }
            | OpenedObject::Directory { location: Some(location), .. }
            | OpenedObject::Link { location, .. } => location,
            OpenedObject::File { location: None, .. } | OpenedObject::Directory { location: None, .. } => {
                return Err(AccessError::NotOpenedForWriting { path: self.canonical.clone() });
            }
            OpenedObject::Special { .. } | OpenedObject::Unresolved { .. } => {
                return Err(self.wrong_kind_error("file"));
            }
        };
        self.still_there(location)
    }

    fn removal_error(&self, errno: Errno) -> AccessError {
        AccessError::io("removing", &self.canonical, errno)
    }
}

#[cfg(test)]
mod tests;
