//! Writing: a temporary file in the same folder takes the name, whole or not at all.
//!
//! The folder's handle and one plain name are all that is used, so a write lands where it was judged. Until the new
//! content is safe on the disk the old one is kept; every failure puts it back. What a tool means by create,
//! overwrite or append is the tool's business; here it says what it expects to be there.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use crate::error::AccessError;
use crate::obstacle::Obstacle;
use crate::opened::{Object, OpenedPath, Place};
use crate::platform;
use crate::request::Ending;
use crate::resolve::is_named;
use crate::undo::{Pending, Saving, Was};

mod temporary;
mod turn;
use temporary::Temporary;
pub(crate) use temporary::{Likeness, new_temporary_name, sha256_of};
pub(crate) use turn::Turn;

/// What must be under the name for a write to go ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: the file is created.
    Absent,
    /// The file that was opened, whatever it holds by now; or nothing, if nothing was there when it was opened.
    Anything,
    /// A file with this content.
    Content {
        /// In hexadecimal.
        sha256: String,
    },
}

/// A write that has reached the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// How many bytes the file has now.
    pub bytes: u64,
    /// Their digest in lower-case hexadecimal.
    pub sha256: String,
    /// Whether the name was new.
    pub created: bool,
}

/// How the temporary file got the name, which is also how it can lose it again.
#[derive(Debug)]
enum Taken {
    /// The name was free.
    Free,
    /// The two names were exchanged: the old file has the temporary one.
    Exchanged,
    /// The old file is gone: this volume cannot exchange names.
    Overwritten,
}

impl OpenedPath {
    /// Gives the file this content. On any error the old content, or the absence of one, is as it was; only where a
    /// volume cannot exchange two names is the new one there already if its folder then cannot be synced.
    ///
    /// Where nothing was there when the path was opened, a file that has appeared since is never overwritten: a
    /// creation was judged, and perhaps shown to a human, and a creation is what happens.
    pub fn replace(
        &self,
        content: &[u8],
        expected: &Expected,
        saving: &Saving,
    ) -> Result<Replaced, AccessError> {
        let sha256 = tool::canonical::sha256_hex(content);
        self.replace_like(&mut &*content, &sha256, expected, &Likeness::Original, saving)
    }

    /// Whether a write that expects this would go ahead, by what is there now. Nothing is changed.
    pub fn may_replace(&self, expected: &Expected) -> Result<(), AccessError> {
        let place = self.place()?;
        if let Some(handle) = self.original(expected)? {
            platform::may_write(handle, &place.folder, &place.leaf)
                .map_err(|errno| self.failed_to_write(errno))?;
        }
        self.check_content(place, &place.leaf, expected)
    }

    /// The file that a write replaces; nothing where it makes a new one.
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

    /// The same with content of this digest from a stream, and with the looks of another file.
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
            // Taking over the name would not ask this file, so it is asked here: read-only means read-only.
            platform::may_write(handle, &place.folder, &place.leaf).map_err(failed)?;
        }
        let synced_folder = place.folder_to_sync().map_err(failed)?;
        let _turn = Turn::wait_for(place).map_err(failed)?;
        self.check_content(place, &place.leaf, expected)?;
        let now = platform::status_at(&place.folder, &place.leaf);
        if original.is_some() && now.is_ok_and(|now| now.kind != FileType::RegularFile) {
            return Err(self.conflict("it is not a file any more"));
        }
        let name = new_temporary_name();
        // First: from here on a crash leaves nothing that the next start does not know of.
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

    /// Gives the new content its name, and makes that last.
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

    /// The place a write lands in, if it is still the one that was judged.
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
            // The folder is there and yet there is no place: the path was opened for reading, or ends in a slash.
            Object::NotThere { obstacle: Obstacle::Absent, .. } => {
                return Err(match self.access {
                    tool::PathAccess::Read => AccessError::NotForWriting { path: self.canonical.clone() },
                    tool::PathAccess::Write | tool::PathAccess::Remove => AccessError::WrongKind {
                        path: self.canonical.clone(),
                        found: "directory by its final slash",
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
        if is_named(&place.folder, &place.folder_name) {
            Ok(place)
        } else {
            Err(self.conflict("its folder was moved"))
        }
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

    /// Whether what is replaced is what was kept: another program may have written in between.
    fn check_kept(&self, place: &Place, name: &OsStr, kept: &Pending<'_>) -> Result<(), AccessError> {
        let now = sha256_of(&place.folder, name.as_ref());
        let now = now.map_err(|error| AccessError::io("comparing", &self.canonical, error))?;
        if kept.holds(&now) { Ok(()) } else { Err(self.conflict("another program is writing to it")) }
    }

    fn take_free_name(&self, place: &Place, temporary: &Temporary<'_>) -> Result<Taken, AccessError> {
        let (folder, leaf) = (&place.folder, &place.leaf);
        let taken = match rename(place, temporary, RenameFlags::NOREPLACE) {
            // A second name does the same where a rename cannot promise it; the first one goes with the temporary.
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
        // Only now is it certain what was replaced: nobody can change what the name led to any more.
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

    /// Ends a write: either it is on the disk and the old file goes, or it is taken back.
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

    /// Gives the old file its name back, unless another writer has taken the name since: theirs then stays.
    fn undo_exchange(&self, place: &Place, temporary: &Temporary<'_>, error: AccessError) -> AccessError {
        let exchange = || rename(place, temporary, RenameFlags::EXCHANGE);
        let is_undone = exchange().is_ok_and(|()| {
            // Whoever wrote over ours has replaced the old file as well; whoever moved ours away has not.
            let is_back = temporary.is_at(temporary.name().as_ref());
            is_back || (exchange().is_ok() && !temporary.has_a_name())
        });
        if is_undone {
            return error;
        }
        temporary.keep();
        let kept = format!("{error}; what was there before is kept beside it as `{}`", temporary.name());
        AccessError::io("taking back the write to", &self.canonical, std::io::Error::other(kept))
    }

    fn failed_to_write(&self, errno: Errno) -> AccessError {
        AccessError::io("writing", &self.canonical, errno)
    }

    pub(crate) fn conflict(&self, found: &str) -> AccessError {
        AccessError::Conflict { path: self.canonical.clone(), found: found.to_owned() }
    }
}

fn rename(place: &Place, temporary: &Temporary<'_>, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(&place.folder, temporary.name(), &place.folder, &place.leaf, flags)
}

/// What a volume or a kernel answers that cannot rename in the way it was asked to.
pub(crate) fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

#[cfg(test)]
mod tests;
