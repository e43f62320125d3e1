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
use crate::obstacle::Obstacle;
use crate::opened::{Object, OpenedPath, Place};
use crate::platform;
use crate::request::Ending;
use crate::undo::{Pending, Saving, Was};

mod temporary;
mod turn;
use temporary::Temporary;
pub(crate) use temporary::{Likeness, new_temporary_name, sha256_of};
pub(crate) use turn::Turn;

/// Condition on the existing content for a write to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
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
pub struct Replaced {
    /// Size of the new content in bytes.
    pub bytes: u64,
    /// SHA-256 of the new content in lower-case hexadecimal.
    pub sha256: String,
    /// True if the file is new.
    pub created: bool,
}

/// Way in which the temporary file got its name, which decides how it can be reverted.
#[derive(Debug)]
enum Taken {
    /// The name was free.
    Free,
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
        expected: &Expected,
        saving: &Saving,
    ) -> Result<Replaced, AccessError> {
        let sha256 = tool::canonical::sha256_hex(content);
        self.replace_like(&mut &*content, &sha256, expected, &Likeness::Original, saving)
    }

    /// Checks whether a write with this condition would succeed now. Changes nothing.
    pub fn may_replace(&self, expected: &Expected) -> Result<(), AccessError> {
        let place = self.place()?;
        if let Some(handle) = self.original(expected)? {
            platform::may_write(handle, &place.folder, &place.leaf)
                .map_err(|errno| self.failed_to_write(errno))?;
        }
        self.check_content(place, &place.leaf, expected)
    }

    /// Returns the file that a write replaces, or `None` if it creates one.
    fn original(&self, expected: &Expected) -> Result<Option<&OwnedFd>, AccessError> {
        match (&self.object, expected) {
            (Object::File { .. }, Expected::Absent) => {
                Err(AccessError::Exists { path: self.canonical.clone() })
            }
            (Object::File { handle, .. }, Expected::Anything | Expected::Content { .. }) => Ok(Some(handle)),
            (Object::NotThere { .. }, Expected::Content { .. }) => Err(self.conflict("it does not exist")),
            (Object::NotThere { .. }, Expected::Absent | Expected::Anything) => Ok(None),
            (Object::Directory { .. } | Object::Link { .. } | Object::Special { .. }, _) => {
                Err(self.unsuitable("file"))
            }
        }
    }

    /// Like `replace`, but reads content of this digest from a stream and copies permissions and attributes
    /// from `likeness`.
    pub(crate) fn replace_like(
        &self,
        content: &mut dyn Read,
        sha256: &str,
        expected: &Expected,
        likeness: &Likeness<'_>,
        saving: &Saving,
    ) -> Result<Replaced, AccessError> {
        let place = self.place()?;
        let original = self.original(expected)?;
        let failed = |errno| self.failed_to_write(errno);
        if let Some(handle) = original {
            // A rename does not check the permissions of the replaced file, so they are checked here: a
            // read-only file stays unchanged.
            platform::may_write(handle, &place.folder, &place.leaf).map_err(failed)?;
        }
        let synced_folder = place.folder_to_sync().map_err(failed)?;
        let _turn = Turn::wait_for(place).map_err(failed)?;
        git_directory::refuse_entry(place)?;
        self.check_content(place, &place.leaf, expected)?;
        let now = platform::status_at(&place.folder, &place.leaf);
        if original.is_some() && now.is_ok_and(|now| now.kind != FileType::RegularFile) {
            return Err(self.conflict("it is not a file any more"));
        }
        let name = new_temporary_name();
        // First: from here on, recovery at the next start knows everything that a crash can leave.
        let was = if original.is_some() { Was::File } else { Was::Absent };
        let pending = saving.before_write(place, was, sha256, &name)?;
        let temporary = Temporary::create(place, name, original).map(|file| file.told_by(&pending));
        let temporary = temporary.and_then(|file| file.fill(content, original, likeness));
        let (temporary, bytes) =
            temporary.map_err(|error| AccessError::io("writing", &self.canonical, error))?;
        let written = self.take_name(place, &temporary, expected, original.map(|_| &pending), synced_folder);
        if temporary.is_kept() {
            pending.keep();
        }
        let created = matches!(written?, Taken::Free);
        drop(temporary);
        pending.finish();
        Ok(Replaced { bytes, sha256: sha256.to_owned(), created })
    }

    /// Renames the temporary file to its name and makes that durable.
    fn take_name(
        &self,
        place: &Place,
        temporary: &Temporary<'_>,
        expected: &Expected,
        over: Option<&Pending<'_>>,
        synced_folder: Option<OwnedFd>,
    ) -> Result<Taken, AccessError> {
        let taken = match over {
            None => self.take_free_name(place, temporary)?,
            Some(kept) => self.take_over_name(place, temporary, expected, kept)?,
        };
        let synced = synced_folder.map_or(Ok(()), rustix::fs::fsync);
        self.settle(place, temporary, &taken, synced)?;
        Ok(taken)
    }

    /// Returns the location of a write, if its folder still has the path that was judged.
    fn place(&self) -> Result<&Place, AccessError> {
        let place = match &self.object {
            Object::File { place: Some(place), .. } => place,
            Object::NotThere { vacancy: Some(vacancy), .. }
                if vacancy.beyond.is_empty() && vacancy.ending == Ending::Open =>
            {
                &vacancy.place
            }
            Object::File { place: None, .. } => {
                return Err(AccessError::NotForWriting { path: self.canonical.clone() });
            }
            // The folder exists but there is no location: the path was opened for reading, or it ends in a
            // slash.
            Object::NotThere { obstacle: Obstacle::Absent, .. } => {
                return Err(match self.access {
                    tool::PathAccess::Read => AccessError::NotForWriting { path: self.canonical.clone() },
                    tool::PathAccess::Write | tool::PathAccess::Remove => AccessError::WrongKind {
                        path: self.canonical.clone(),
                        found: "directory (it ends in a slash)",
                        wanted: "file",
                    },
                });
            }
            Object::NotThere { .. }
            | Object::Directory { .. }
            | Object::Link { .. }
            | Object::Special { .. } => {
                return Err(self.unsuitable("file"));
            }
        };
        self.still_there(place)
    }

    fn check_content(
        &self,
        place: &Place,
        name: impl AsRef<Path>,
        expected: &Expected,
    ) -> Result<(), AccessError> {
        let Expected::Content { sha256 } = expected else { return Ok(()) };
        match sha256_of(&place.folder, name.as_ref()) {
            Ok(found) if found.eq_ignore_ascii_case(sha256) => Ok(()),
            Ok(found) => Err(self.conflict(&format!("its sha256 is now {found}"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.conflict("it does not exist any more"))
            }
            Err(error) => Err(AccessError::io("comparing", &self.canonical, error)),
        }
    }

    /// Checks that the replaced content is the saved content: another program may have written in between.
    fn check_kept(&self, place: &Place, name: &OsStr, kept: &Pending<'_>) -> Result<(), AccessError> {
        let now = sha256_of(&place.folder, name.as_ref());
        let now = now.map_err(|error| AccessError::io("comparing", &self.canonical, error))?;
        if kept.holds(&now) { Ok(()) } else { Err(self.conflict("another program is writing to it")) }
    }

    fn take_free_name(&self, place: &Place, temporary: &Temporary<'_>) -> Result<Taken, AccessError> {
        let (folder, leaf) = (&place.folder, &place.leaf);
        let taken = match rename(place, temporary, RenameFlags::NOREPLACE) {
            // Where a rename cannot refuse to overwrite, a hard link can. The temporary name is removed on
            // drop.
            Err(errno) if is_unsupported(errno) => {
                rustix::fs::linkat(folder, temporary.name(), folder, leaf, AtFlags::empty())
            }
            taken => taken,
        };
        match taken {
            Ok(()) => Ok(Taken::Free),
            Err(Errno::EXIST) => Err(AccessError::Exists { path: self.canonical.clone() }),
            Err(errno) => Err(AccessError::io("creating", &self.canonical, errno)),
        }
    }

    fn take_over_name(
        &self,
        place: &Place,
        temporary: &Temporary<'_>,
        expected: &Expected,
        kept: &Pending<'_>,
    ) -> Result<Taken, AccessError> {
        match rename(place, temporary, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) if *expected == Expected::Anything => {
                return self.take_free_name(place, temporary);
            }
            Err(Errno::NOENT) => return Err(self.conflict("it does not exist any more")),
            Err(errno) if is_unsupported(errno) => {
                self.check_content(place, &place.leaf, expected)?;
                self.check_kept(place, &place.leaf, kept)?;
                let renamed = rename(place, temporary, RenameFlags::empty());
                return renamed.map(|()| Taken::Overwritten).map_err(|errno| self.failed_to_write(errno));
            }
            Err(errno) => return Err(self.failed_to_write(errno)),
        }
        // Only now is it certain what was replaced: no process can change the object behind the name any
        // more.
        let old = platform::status_at(&place.folder, temporary.name().as_ref());
        let checked = match old.map(|old| old.kind) {
            Ok(FileType::RegularFile) => self
                .check_content(place, temporary.name(), expected)
                .and_then(|()| self.check_kept(place, temporary.name().as_ref(), kept)),
            Ok(_) => Err(self.conflict("it is not a file any more")),
            Err(errno) => Err(self.failed_to_write(errno)),
        };
        match checked {
            Ok(()) => Ok(Taken::Exchanged),
            Err(error) => Err(self.undo_exchange(place, temporary, error)),
        }
    }

    /// Finishes a write: either it is on the disk and the old file is removed, or it is reverted.
    fn settle(
        &self,
        place: &Place,
        temporary: &Temporary<'_>,
        taken: &Taken,
        synced: Result<(), Errno>,
    ) -> Result<(), AccessError> {
        let Err(errno) = synced else { return Ok(()) };
        let error = AccessError::io("syncing the folder of", &self.canonical, errno);
        match taken {
            Taken::Free => {
                if temporary.is_at(&place.leaf) {
                    let _ = rustix::fs::unlinkat(&place.folder, &place.leaf, AtFlags::empty());
                }
                Err(error)
            }
            Taken::Exchanged => Err(self.undo_exchange(place, temporary, error)),
            Taken::Overwritten => Err(error),
        }
    }

    /// Exchanges the names back, unless another writer has replaced the new file meanwhile: then that file
    /// stays.
    fn undo_exchange(&self, place: &Place, temporary: &Temporary<'_>, error: AccessError) -> AccessError {
        let exchange = || rename(place, temporary, RenameFlags::EXCHANGE);
        let is_undone = exchange().is_ok_and(|()| {
            // A writer that replaced our file has also replaced the old one; a process that moved our file
            // away has not.
            let is_back = temporary.is_at(temporary.name().as_ref());
            is_back || (exchange().is_ok() && !temporary.has_a_name())
        });
        if is_undone {
            return error;
        }
        temporary.keep();
        let kept = format!("{error}; the previous file is kept next to it as `{}`", temporary.name());
        AccessError::io("reverting the write to", &self.canonical, std::io::Error::other(kept))
    }

    fn failed_to_write(&self, errno: Errno) -> AccessError {
        AccessError::io("writing", &self.canonical, errno)
    }
}

fn rename(place: &Place, temporary: &Temporary<'_>, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(&place.folder, temporary.name(), &place.folder, &place.leaf, flags)
}

/// Returns true if the volume or the kernel does not support the requested kind of rename.
pub(crate) fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

#[cfg(test)]
mod tests;
