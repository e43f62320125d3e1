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
use crate::opened::{Identity, Object, OpenedPath, Place};
use crate::platform;
use crate::replace::{Expected, Turn, new_temporary_name, sha256_of};
use crate::tree::{self, Found, Next};
use crate::undo::{Before, Held, Made};
use crate::undo::{Pending, Saving, Weight};

/// Handling of folders in a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// Only files and links are removed.
    Never,
    /// A folder is removed with everything in it.
    Whole,
}

/// Rule that protects entries below a folder from removal.
pub struct Protects<'a>(Rule<'a>);

enum Rule<'a> {
    Says(&'a dyn Fn(&Path) -> bool),
    AllBut(&'a Made),
}

impl<'a> Protects<'a> {
    /// Protects the canonical paths for which the predicate returns true.
    pub fn by(rule: &'a dyn Fn(&Path) -> bool) -> Self {
        Protects(Rule::Says(rule))
    }

    pub(crate) fn nothing() -> Protects<'static> {
        Protects(Rule::Says(&|_| false))
    }

    /// Protects everything that the call did not create, or that has changed since.
    pub(crate) fn all_but(made: &'a Made) -> Self {
        Protects(Rule::AllBut(made))
    }

    /// Returns the reason why an entry must stay, or `None` if it may be removed.
    fn keeps(&self, name: &Path, found: &Found<'_>) -> Option<&'static str> {
        match self.0 {
            Rule::Says(rule) => rule(name).then_some("is protected"),
            Rule::AllBut(made) => (!made.has(found)).then_some("is not what the call created"),
        }
    }
}

/// Summary of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// `file`, `symlink` or `directory`.
    pub kind: &'static str,
    /// Number of removed names, including those below a folder.
    pub entries: u64,
    /// Total size of the removed files.
    pub bytes: u64,
}

impl OpenedPath {
    /// Returns what a removal would remove, or the reason why it is not possible.
    pub fn survey(&self, descent: Descent, protects: &Protects<'_>) -> Result<Removed, AccessError> {
        let place = self.removable()?;
        match &self.object {
            Object::File { handle, facts, .. } => {
                platform::may_write(handle, &place.folder, &place.leaf)
                    .map_err(|errno| self.failed_to_remove(errno))?;
                Ok(Removed { kind: "file", entries: 1, bytes: facts.size })
            }
            Object::Link { .. } => Ok(Removed { kind: "symlink", entries: 1, bytes: 0 }),
            Object::Directory { .. } if descent == Descent::Never => Err(self.unsuitable("file")),
            Object::Directory { handle, facts, .. } => {
                let readable =
                    platform::reopen_directory(handle).map_err(|errno| self.failed_to_remove(errno))?;
                self.count(readable, facts.identity, protects)
            }
            Object::Special { .. } | Object::NotThere { .. } => Err(self.unsuitable("file")),
        }
    }

    /// Removes the opened object, if the name still leads to it. On any error everything is unchanged.
    pub fn remove(
        &self,
        expected: &Expected,
        descent: Descent,
        protects: &Protects<'_>,
        saving: &Saving,
    ) -> Result<Removed, AccessError> {
        let removed = self.survey(descent, protects)?;
        let place = self.removable()?;
        let _turn = Turn::wait_for(place).map_err(|errno| self.failed_to_remove(errno))?;
        let mode = self.metadata().map_or(0, |facts| facts.mode);
        let before = match &self.object {
            Object::Link { text, .. } => Before::Link { text: text.clone() },
            Object::Directory { .. } => Before::Folder { held: self.moved(place, saving)? },
            _ => Before::File { sha256: None, mode, held: self.moved(place, saving)? },
        };
        let temporary = new_temporary_name();
        let weight = Weight { allocated: self.allocated(&removed), copied: removed.bytes };
        let mut pending = saving.before_removal(place, before, weight, &temporary)?;
        let taken = match &self.object {
            Object::Link { .. } => self.set_aside(place, &pending, expected, None),
            _ => match pending.take(place) {
                Ok(()) => self
                    .check_taken(place, &pending, expected, protects)
                    .and_then(|()| self.sync_taken(place, &pending)),
                Err(Errno::XDEV) => self.copy_and_remove(place, &mut pending, expected, protects),
                Err(Errno::NOENT) => Err(self.conflict("it does not exist any more")),
                Err(errno) => Err(self.failed_to_remove(errno)),
            },
        };
        taken?;
        pending.finish();
        Ok(removed)
    }

    /// Returns the size on disk. Files in a folder count in full, since few of them are sparse.
    fn allocated(&self, removed: &Removed) -> u64 {
        match &self.object {
            Object::File { facts, .. } => facts.allocated.min(facts.size),
            _ => removed.bytes,
        }
    }

    /// Returns the storage form of a moved object, with the seal of its current state.
    fn moved(&self, place: &Place, saving: &Saving) -> Result<Held, AccessError> {
        if saving.keeps_nothing() {
            return Ok(Held::Moved { seal: None });
        }
        match tree::seal(&place.folder, &place.leaf) {
            Ok(seal) => Ok(Held::Moved { seal: Some(seal) }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(self.conflict("it does not exist any more"))
            }
            Err(error) => Err(AccessError::io("inspecting", &self.canonical, error)),
        }
    }

    /// Checks the moved object, which other processes can no longer reach by its name. If the check fails,
    /// the object is put back.
    fn check_taken(
        &self,
        place: &Place,
        pending: &Pending<'_>,
        expected: &Expected,
        protects: &Protects<'_>,
    ) -> Result<(), AccessError> {
        let (folder, name) = pending.taken();
        let Err(error) = self.check(folder, OsStr::new(&name), expected, protects) else { return Ok(()) };
        match pending.give_back(place) {
            Ok(()) => Err(error),
            Err(errno) => {
                let why = format!(
                    "{error}; it could not be restored ({errno}): run `sinew undo` with the id of this call"
                );
                Err(AccessError::io("removing", &self.canonical, std::io::Error::other(why)))
            }
        }
    }

    /// Makes the move durable, or reverts it.
    fn sync_taken(&self, place: &Place, pending: &Pending<'_>) -> Result<(), AccessError> {
        let synced = place.sync().map_err(|errno| self.failed_to_remove(errno));
        synced.and_then(|()| pending.sync_taken(&self.canonical)).inspect_err(|_| {
            if pending.give_back(place).is_err() {
                pending.keep();
            }
        })
    }

    /// Removes an object if the undo store is on another volume: copies it, renames it to the temporary name,
    /// and deletes it if it is still what was copied.
    fn copy_and_remove(
        &self,
        place: &Place,
        pending: &mut Pending<'_>,
        expected: &Expected,
        protects: &Protects<'_>,
    ) -> Result<(), AccessError> {
        let failed = |error: std::io::Error| AccessError::io("saving", &self.canonical, error);
        let seen = self.print().map_err(failed)?;
        pending.copy_instead(place).map_err(failed)?;
        self.set_aside(place, pending, expected, Some((&seen, protects)))
    }

    /// Renames the object to the temporary name, checks that it is the right one, and deletes it.
    fn set_aside(
        &self,
        place: &Place,
        pending: &Pending<'_>,
        expected: &Expected,
        copied: Option<(&tree::Print, &Protects<'_>)>,
    ) -> Result<(), AccessError> {
        let aside = OsStr::new(pending.temporary());
        let rename = |from: &OsStr, to: &OsStr| {
            rustix::fs::renameat_with(&place.folder, from, &place.folder, to, RenameFlags::NOREPLACE)
        };
        rename(&place.leaf, aside).map_err(|errno| match errno {
            Errno::NOENT => self.conflict("it does not exist any more"),
            errno => self.failed_to_remove(errno),
        })?;
        let nothing = Protects::nothing();
        let protects = copied.map_or(&nothing, |(_, protects)| protects);
        let mut checked = self.check(&place.folder, aside, expected, protects);
        if let Some((seen, _)) = copied
            && checked.is_ok()
            && self.print().ok().as_ref() != Some(seen)
        {
            checked = Err(self.conflict("it was changed while it was being removed"));
        }
        // The deletion cannot be reverted, so the rename must be durable before it.
        let checked = checked.and_then(|()| place.sync().map_err(|errno| self.failed_to_remove(errno)));
        if let Err(error) = checked {
            return match rename(aside, &place.leaf) {
                Ok(()) => Err(error),
                Err(errno) => {
                    pending.keep();
                    Err(self.failed_to_remove(errno))
                }
            };
        }
        tree::clear(&place.folder, aside).map_err(|errno| {
            // A folder may be partly deleted, but all of it is saved. Any other object is either there or
            // not.
            let is_whole = !matches!(self.object, Object::Directory { .. });
            if !is_whole || rename(aside, &place.leaf).is_err() {
                pending.keep();
            }
            self.failed_to_remove(errno)
        })
    }

    /// Checks that a name leads to the opened object, with the expected content and no protected entry.
    fn check(
        &self,
        folder: &std::os::fd::OwnedFd,
        name: &OsStr,
        expected: &Expected,
        protects: &Protects<'_>,
    ) -> Result<(), AccessError> {
        let status = platform::status_at(folder, name).map_err(|errno| self.failed_to_remove(errno))?;
        let opened = self.metadata().map(|facts| facts.identity);
        if Some(status.facts.identity) != opened {
            return Err(self.conflict("another object is there now"));
        }
        if let Expected::Content { sha256 } = expected
            && status.kind == FileType::RegularFile
        {
            let now = sha256_of(folder, Path::new(name))
                .map_err(|error| AccessError::io("comparing", &self.canonical, error))?;
            if !now.eq_ignore_ascii_case(sha256) {
                return Err(self.conflict(&format!("its sha256 is now {now}")));
            }
        }
        if status.kind == FileType::Directory {
            let opened = tree::open_folder(folder, name).map_err(|errno| self.failed_to_remove(errno))?;
            self.count(opened, status.facts.identity, protects)?;
        }
        Ok(())
    }

    /// Counts the entries of a folder. Fails if one of them is protected or cannot be inspected.
    fn count(
        &self,
        folder: std::os::fd::OwnedFd,
        top: Identity,
        protects: &Protects<'_>,
    ) -> Result<Removed, AccessError> {
        let mut removed = Removed { kind: "directory", entries: 1, bytes: 0 };
        let mut blocker: Option<(PathBuf, &'static str)> = None;
        let unseen = tree::below(folder, &mut |found| {
            removed.entries += 1;
            removed.bytes += found.entry.size.filter(|_| found.entry.kind == EntryKind::File).unwrap_or(0);
            let name = self.canonical.join(found.relative);
            if let Some(why) = protects.keeps(&name, found) {
                blocker = Some((name, why));
            } else if found.device().is_some_and(|device| device != top.device) {
                blocker = Some((name, "is on another volume"));
            } else if found.entry.kind == EntryKind::Unreadable {
                blocker = Some((name, "cannot be inspected"));
            }
            if blocker.is_some() { Next::Stop } else { Next::Enter }
        });
        let unseen = unseen.map_err(|errno| self.failed_to_remove(errno))?;
        let unread = unseen.unreadable.first().map(|path| (self.canonical.join(path), "cannot be read"));
        if let Some((inner, why)) = blocker.or(unread) {
            return Err(AccessError::Blocked { path: self.canonical.clone(), inner, why });
        }
        if unseen.cut {
            let (path, inner) = (self.canonical.clone(), self.canonical.clone());
            return Err(AccessError::Blocked { path, inner, why: "has more entries than can be checked" });
        }
        Ok(removed)
    }

    fn print(&self) -> std::io::Result<tree::Print> {
        match &self.object {
            Object::Directory { handle, .. } => tree::print(&platform::reopen_directory(handle)?),
            Object::File { handle, .. } => {
                let facts = platform::status(handle)?.facts;
                let seen = (facts.identity.inode, facts.size, Some(facts.modified));
                Ok(tree::Print::from([(PathBuf::new(), seen)]))
            }
            _ => Ok(tree::Print::new()),
        }
    }

    /// Returns the location that a removal renames from, if its folder still has the path that was judged.
    fn removable(&self) -> Result<&Place, AccessError> {
        let place = match &self.object {
            Object::File { place: Some(place), .. }
            | Object::Directory { place: Some(place), .. }
            | Object::Link { place, .. } => place,
            Object::File { place: None, .. } | Object::Directory { place: None, .. } => {
                return Err(AccessError::NotForWriting { path: self.canonical.clone() });
            }
            Object::Special { .. } | Object::NotThere { .. } => return Err(self.unsuitable("file")),
        };
        self.still_there(place)
    }

    fn failed_to_remove(&self, errno: Errno) -> AccessError {
        AccessError::io("removing", &self.canonical, errno)
    }
}

#[cfg(test)]
mod tests;
