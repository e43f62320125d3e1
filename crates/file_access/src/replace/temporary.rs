//! Temporary file of a write: created under a random name, filled, given the permissions of the file it
//! replaces, and synced.
//!
//! On drop, whatever has the temporary name is removed. After an exchange of names that is the old file.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, RawMode, Uid};
use rustix::io::Errno;
use uuid::Uuid;

use crate::opened::Place;
use crate::platform::{self, Kept};
use crate::read::Reader;
use crate::tree;
use crate::undo::Pending;

const PREFIX: &str = ".sinew-tmp-";

/// Permissions that `open` uses for a new file before the umask applies.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
/// Permissions until the file has those of the file it replaces, so that no other user can read it.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Source of the permissions and attributes of new content.
#[derive(Debug)]
pub(crate) enum Likeness<'a> {
    /// The file that is replaced.
    Original,
    /// The saved state of that file.
    Kept {
        /// Private copy that has the attributes.
        attributes: &'a OwnedFd,
        /// Permission bits.
        mode: u32,
    },
}

/// Returns a random name.
pub(crate) fn new_temporary_name() -> String {
    format!("{PREFIX}{}", Uuid::new_v4().simple())
}

#[derive(Debug)]
pub(super) struct Temporary<'a> {
    place: &'a Place,
    name: String,
    file: File,
    kept: Cell<bool>,
    journal: Option<&'a Pending<'a>>,
}

impl<'a> Temporary<'a> {
    pub(super) fn create(place: &'a Place, name: String, original: Option<&OwnedFd>) -> io::Result<Self> {
        let mode = if original.is_some() { PRIVATE } else { NEW_FILE };
        let file = tree::create_file(&place.folder, &name, mode)?;
        Ok(Temporary { place, name, file, kept: Cell::new(false), journal: None })
    }

    /// Writes and syncs the content, and returns its size.
    pub(super) fn fill(
        mut self,
        content: &mut dyn Read,
        original: Option<&OwnedFd>,
        likeness: &Likeness<'_>,
    ) -> io::Result<(Self, u64)> {
        let bytes = io::copy(content, &mut self.file)?;
        if let Some(original) = original {
            self.dress_like(original, likeness)?;
        }
        platform::sync_file(&self.file)?;
        Ok((self, bytes))
    }

    /// Copies owner, permissions and attributes of a file. Never grants more than that file did: setuid,
    /// setgid and sticky bits are dropped.
    fn dress_like(&self, original: &OwnedFd, likeness: &Likeness<'_>) -> Result<(), Errno> {
        let (old, new) = (rustix::fs::fstat(original)?, rustix::fs::fstat(&self.file)?);
        let owner = (old.st_uid != new.st_uid).then(|| Uid::from_raw(old.st_uid));
        let group = (old.st_gid != new.st_gid).then(|| Gid::from_raw(old.st_gid));
        let owned = rustix::fs::fchown(&self.file, owner, group);
        let same_group = owned.or_else(|_| rustix::fs::fchown(&self.file, None, group)).is_ok();
        let (model, mode) = match likeness {
            Likeness::Original => (original, old.st_mode),
            Likeness::Kept { attributes, mode } => {
                (*attributes, RawMode::try_from(*mode).unwrap_or_default())
            }
        };
        let kept = match platform::reopen_for_reading(model) {
            Ok(readable) => platform::copy_attributes(&readable, &self.file),
            Err(_) => Kept::WithoutList,
        };
        let bits = Mode::from_raw_mode(mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        // The mode comes last: until then the file is private, and writable by us, which the attributes need.
        let is_same_crowd = same_group && kept == Kept::All;
        rustix::fs::fchmod(&self.file, if is_same_crowd { bits } else { without_group(bits) })
    }

    /// Sets the journal that is notified if the temporary file cannot be removed.
    pub(super) fn told_by(mut self, journal: &'a Pending<'a>) -> Self {
        self.journal = Some(journal);
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if a name in the folder leads to this file.
    pub(super) fn is_at(&self, name: &OsStr) -> bool {
        let (there, ours) = (platform::status_at(&self.place.folder, name), platform::status(&self.file));
        matches!((there, ours), (Ok(there), Ok(ours)) if there.facts.identity == ours.facts.identity)
    }

    /// Returns true if any name still leads to this file.
    pub(super) fn has_a_name(&self) -> bool {
        !platform::status(&self.file).is_ok_and(|status| status.facts.links == 0)
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept.get()
    }

    /// Leaves whatever has the temporary name in place on drop.
    pub(super) fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.kept.get() {
            return;
        }
        match rustix::fs::unlinkat(&self.place.folder, &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => self.journal.iter().for_each(|journal| journal.leave()),
        }
    }
}

/// Limits the group's bits to those of others. The file has another group than before, or lacks the access
/// control list whose mask the bits showed.
fn without_group(bits: Mode) -> Mode {
    let everybody = (bits & Mode::RWXO).bits();
    bits & (Mode::RWXU | Mode::RWXO | Mode::from_raw_mode(everybody << 3))
}

/// Returns the SHA-256 of a regular file by its plain name in a folder. Does not follow a link.
pub(crate) fn sha256_of(folder: &OwnedFd, name: &Path) -> io::Result<String> {
    Reader::new(tree::open_file(folder, name.as_os_str())?).sha256()
}
