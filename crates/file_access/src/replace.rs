//! Atomic writes: a temporary file in the same folder replaces the file as a whole.
//!
//! A write uses only the folder's handle and one plain name, so it lands where it was judged. The old content
//! stays until the new content is on the disk, and every failure restores it. Create, overwrite and append
//! are up to the tool, which states the expected content here.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use crate::error::AccessError;
use crate::git_directory;
use crate::opened::{EntryLocation, OpenedObject, OpenedPath};
use crate::platform;
use crate::request::PathEnding;
use crate::undo::{ChangeRecorder, ExistingTarget, PendingChange};
use crate::unresolved::UnresolvedReason;

mod name_lock;
mod temporary_file;
pub(crate) use name_lock::NameLock;
use temporary_file::TemporaryFile;
pub(crate) use temporary_file::{MetadataSource, file_sha256, new_temporary_name};

/// Condition on the existing content for a write to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPrecondition {
    /// Nothing exists; the file is created.
    Absent,
    /// The file that was opened, with any content; or nothing, if nothing existed when the path was opened.
    Anything,
    /// A file with this content.
    Content {
        /// SHA-256 in hexadecimal.
        sha256: String,
    },
}

/// Summary of a write that has reached the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteSummary {
    /// Size of the new content in bytes.
    pub bytes: u64,
    /// SHA-256 of the new content in lower-case hexadecimal.
    pub sha256: String,
    /// True if the file is new.
    pub created: bool,
}

/// Way in which the temporary file got its name, which decides how it can be reverted.
#[derive(Debug)]
enum NameChange {
    /// The name was free.
    Created,
    /// The two names were exchanged: the old file has the temporary name.
    Exchanged,
    /// The old file was replaced, because the volume cannot exchange names.
    Overwritten,
}

impl OpenedPath {
    /// Replaces the content of the file. On any error the old content, or the absence of the file, is
    /// unchanged. One exception: if the volume cannot exchange two names and syncing the folder fails, the
    /// new content is already in place.
    ///
    /// If nothing existed when the path was opened, a file that has appeared since is never overwritten:
    /// governance judged a creation, and the operator may have approved one.
    pub fn replace(
        &self,
        content: &[u8],
        expected: &ContentPrecondition,
        recorder: &ChangeRecorder,
    ) -> Result<WriteSummary, AccessError> {
        let sha256 = tool::canonical::sha256_hex(content);
        self.replace_from_reader(&mut &*content, &sha256, expected, &MetadataSource::Original, recorder)
    }

    /// Checks whether a write with this condition would succeed now. Changes nothing.
    pub fn check_replace(&self, expected: &ContentPrecondition) -> Result<(), AccessError> {
        let location = self.write_location()?;
        if let Some(handle) = self.file_to_replace(expected)? {
            platform::check_write_access(handle, &location.folder, &location.leaf)
                .map_err(|errno| self.write_error(errno))?;
        }
        self.check_content(location, &location.leaf, expected)
    }

    /// Returns the file that a write replaces, or `None` if it creates one.
    fn file_to_replace(&self, expected: &ContentPrecondition) -> Result<Option<&OwnedFd>, AccessError> {
        match (&self.object, expected) {
            (OpenedObject::File { .. }, ContentPrecondition::Absent) => {
                Err(AccessError::Exists { path: self.canonical.clone() })
            }
            (
                OpenedObject::File { handle, .. },
                ContentPrecondition::Anything | ContentPrecondition::Content { .. },
            ) => Ok(Some(handle)),
            (OpenedObject::Unresolved { .. }, ContentPrecondition::Content { .. }) => {
                Err(self.conflict_error("it does not exist"))
            }
            (
                OpenedObject::Unresolved { .. },
                ContentPrecondition::Absent | ContentPrecondition::Anything,
            ) => Ok(None),
            (
                OpenedObject::Directory { .. } | OpenedObject::Link { .. } | OpenedObject::Special { .. },
                _,
            ) => Err(self.wrong_kind_error("file")),
        }
    }

    /// Like `replace`, but reads content of this digest from a stream and copies permissions and attributes
    /// from `metadata_source`.
    pub(crate) fn replace_from_reader(
        &self,
        content: &mut dyn Read,
        sha256: &str,
        expected: &ContentPrecondition,
        metadata_source: &MetadataSource<'_>,
        recorder: &ChangeRecorder,
    ) -> Result<WriteSummary, AccessError> {
        let location = self.write_location()?;
        let original = self.file_to_replace(expected)?;
        let failed = |errno| self.write_error(errno);
        if let Some(handle) = original {
            // A rename does not check the permissions of the replaced file, so they are checked here: a
            // read-only file stays unchanged.
            platform::check_write_access(handle, &location.folder, &location.leaf).map_err(failed)?;
        }
        let synced_folder = location.syncable_folder().map_err(failed)?;
        let _name_lock = NameLock::acquire(location).map_err(failed)?;
        git_directory::refuse_entry(location)?;
        self.check_content(location, &location.leaf, expected)?;
        let now = platform::status_at(&location.folder, &location.leaf);
        if original.is_some() && now.is_ok_and(|now| now.kind != FileType::RegularFile) {
            return Err(self.conflict_error("it is not a file any more"));
        }
        let name = new_temporary_name()
            .map_err(|error| AccessError::io("naming a temporary file for", &self.canonical, error))?;
        // First: from here on, recovery at the next start knows everything that a crash can leave.
        let was = if original.is_some() { ExistingTarget::File } else { ExistingTarget::Absent };
        let pending = recorder.before_write(location, was, sha256, &name)?;
        let temporary =
            TemporaryFile::create(location, name, original).map(|file| file.with_journal(&pending));
        let temporary = temporary.and_then(|file| file.fill(content, original, metadata_source));
        let (temporary, bytes) =
            temporary.map_err(|error| AccessError::io("writing", &self.canonical, error))?;
        let written =
            self.commit_name(location, &temporary, expected, original.map(|_| &pending), synced_folder);
        if temporary.is_retained() {
            pending.keep_saved();
        }
        let created = matches!(written?, NameChange::Created);
        drop(temporary);
        pending.finish();
        Ok(WriteSummary { bytes, sha256: sha256.to_owned(), created })
    }

    /// Renames the temporary file to its name and makes that durable.
    fn commit_name(
        &self,
        location: &EntryLocation,
        temporary: &TemporaryFile<'_>,
        expected: &ContentPrecondition,
        over: Option<&PendingChange<'_>>,
        synced_folder: Option<OwnedFd>,
    ) -> Result<NameChange, AccessError> {
        let taken = match over {
            None => self.create_name(location, temporary)?,
            Some(pending) => self.exchange_name(location, temporary, expected, pending)?,
        };
        let synced = synced_folder.map_or(Ok(()), rustix::fs::fsync);
        self.finish_write(location, temporary, &taken, synced)?;
        Ok(taken)
    }

    /// Returns the location of a write, if its folder still has the path that was judged.
    fn write_location(&self) -> Result<&EntryLocation, AccessError> {
        let location = match &self.object {
            OpenedObject::File { location: Some(location), .. } => location,
            OpenedObject::Unresolved { creation_target: Some(target), .. }
                if target.missing_below.is_empty() && target.ending == PathEnding::Unspecified =>
            {
                &target.location
            }
            OpenedObject::File { location: None, .. } => {
                return Err(AccessError::NotOpenedForWriting { path: self.canonical.clone() });
            }
            // The folder exists but there is no location: the path was opened for reading, or it ends in a
            // slash.
            OpenedObject::Unresolved { reason: UnresolvedReason::Absent, .. } => {
                return Err(match self.access {
                    tool::definition::PathAccess::Read => {
                        AccessError::NotOpenedForWriting { path: self.canonical.clone() }
                    }
                    tool::definition::PathAccess::Write | tool::definition::PathAccess::Remove => {
                        AccessError::WrongKind {
                            path: self.canonical.clone(),
                            found: "directory (it ends in a slash)",
                            expected: "file",
                        }
                    }
                });
            }
            OpenedObject::Unresolved { .. }
            | OpenedObject::Directory { .. }
            | OpenedObject::Link { .. }
            | OpenedObject::Special { .. } => {
                return Err(self.wrong_kind_error("file"));
            }
        };
        self.still_there(location)
    }

    fn check_content(
        &self,
        location: &EntryLocation,
        name: impl AsRef<Path>,
        expected: &ContentPrecondition,
    ) -> Result<(), AccessError> {
        let ContentPrecondition::Content { sha256 } = expected else { return Ok(()) };
        match file_sha256(&location.folder, name.as_ref()) {
            Ok(found) if found.eq_ignore_ascii_case(sha256) => Ok(()),
            Ok(found) => Err(self.conflict_error(&format!("its sha256 is now {found}"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.conflict_error("it does not exist any more"))
            }
            Err(error) => Err(AccessError::io("comparing", &self.canonical, error)),
        }
    }

    /// Checks that the replaced content is the saved content: another program may have written in between.
    fn check_saved(
        &self,
        location: &EntryLocation,
        name: &OsStr,
        pending: &PendingChange<'_>,
    ) -> Result<(), AccessError> {
        let now = file_sha256(&location.folder, name.as_ref());
        let now = now.map_err(|error| AccessError::io("comparing", &self.canonical, error))?;
        if pending.has_saved(&now) {
            Ok(())
        } else {
            Err(self.conflict_error("another program is writing to it"))
        }
    }

    fn create_name(
        &self,
        location: &EntryLocation,
        temporary: &TemporaryFile<'_>,
    ) -> Result<NameChange, AccessError> {
        let (folder, leaf) = (&location.folder, &location.leaf);
        let taken = match rename(location, temporary, RenameFlags::NOREPLACE) {
            // Where a rename cannot refuse to overwrite, a hard link can. The temporary name is removed on
            // drop.
            Err(errno) if is_unsupported_rename(errno) => {
                rustix::fs::linkat(folder, temporary.name(), folder, leaf, AtFlags::empty())
            }
            taken => taken,
        };
        match taken {
            Ok(()) => Ok(NameChange::Created),
            Err(Errno::EXIST) => Err(AccessError::Exists { path: self.canonical.clone() }),
            Err(errno) => Err(AccessError::io("creating", &self.canonical, errno)),
        }
    }

    fn exchange_name(
        &self,
        location: &EntryLocation,
        temporary: &TemporaryFile<'_>,
        expected: &ContentPrecondition,
        pending: &PendingChange<'_>,
    ) -> Result<NameChange, AccessError> {
        match rename(location, temporary, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) if *expected == ContentPrecondition::Anything => {
                return self.create_name(location, temporary);
            }
            Err(Errno::NOENT) => return Err(self.conflict_error("it does not exist any more")),
            Err(errno) if is_unsupported_rename(errno) => {
                self.check_content(location, &location.leaf, expected)?;
                self.check_saved(location, &location.leaf, pending)?;
                let renamed = rename(location, temporary, RenameFlags::empty());
                return renamed.map(|()| NameChange::Overwritten).map_err(|errno| self.write_error(errno));
            }
            Err(errno) => return Err(self.write_error(errno)),
        }
        // Only now is it certain what was replaced: no process can change the object behind the name any
        // more.
        let old = platform::status_at(&location.folder, temporary.name().as_ref());
        let checked = match old.map(|old| old.kind) {
            Ok(FileType::RegularFile) => self
                .check_content(location, temporary.name(), expected)
                .and_then(|()| self.check_saved(location, temporary.name().as_ref(), pending)),
            Ok(_) => Err(self.conflict_error("it is not a file any more")),
            Err(errno) => Err(self.write_error(errno)),
        };
        match checked {
            Ok(()) => Ok(NameChange::Exchanged),
            Err(error) => Err(self.undo_exchange(location, temporary, error)),
        }
    }

    /// Finishes a write: either it is on the disk and the old file is removed, or it is reverted.
    fn finish_write(
        &self,
        location: &EntryLocation,
        temporary: &TemporaryFile<'_>,
        taken: &NameChange,
        synced: Result<(), Errno>,
    ) -> Result<(), AccessError> {
        let Err(errno) = synced else { return Ok(()) };
        let error = AccessError::io("syncing the folder of", &self.canonical, errno);
        match taken {
            NameChange::Created => {
                if temporary.has_name(&location.leaf) {
                    let _ = rustix::fs::unlinkat(&location.folder, &location.leaf, AtFlags::empty());
                }
                Err(error)
            }
            NameChange::Exchanged => Err(self.undo_exchange(location, temporary, error)),
            NameChange::Overwritten => Err(error),
        }
    }

    /// Exchanges the names back, unless another writer has replaced the new file meanwhile: then that file
    /// stays.
    fn undo_exchange(
        &self,
        location: &EntryLocation,
        temporary: &TemporaryFile<'_>,
        error: AccessError,
    ) -> AccessError {
        let exchange = || rename(location, temporary, RenameFlags::EXCHANGE);
        let is_undone = exchange().is_ok_and(|()| {
            // A writer that replaced our file has also replaced the old one; a process that moved our file
            // away has not.
            let is_back = temporary.has_name(temporary.name().as_ref());
            is_back || (exchange().is_ok() && !temporary.is_linked())
        });
        if is_undone {
            return error;
        }
        temporary.retain();
        let kept_as = self.name_conflict(location, temporary);
        let message = format!("{error}; the previous file is kept next to it as `{kept_as}`");
        AccessError::io("reverting the write to", &self.canonical, std::io::Error::other(message))
    }

    /// Gives the file with the temporary name a descriptive name, and returns that name.
    fn name_conflict(&self, location: &EntryLocation, temporary: &TemporaryFile<'_>) -> String {
        let name = temporary.conflict_name(&location.leaf);
        let renamed = rustix::fs::renameat_with(
            &location.folder,
            temporary.name(),
            &location.folder,
            &name,
            RenameFlags::NOREPLACE,
        );
        if renamed.is_ok() { name } else { temporary.name().to_owned() }
    }

    fn write_error(&self, errno: Errno) -> AccessError {
        AccessError::io("writing", &self.canonical, errno)
    }
}

fn rename(location: &EntryLocation, temporary: &TemporaryFile<'_>, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(&location.folder, temporary.name(), &location.folder, &location.leaf, flags)
}

/// Returns true if the volume or the kernel does not support the requested kind of rename.
pub(crate) fn is_unsupported_rename(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

#[cfg(test)]
mod tests;
