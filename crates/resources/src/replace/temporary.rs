//! The temporary file of a write: made under a random name, filled, dressed like the file it replaces, synced.
//!
//! Whatever has its name when it is dropped is removed, which after an exchange of names is the old file.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RawMode, Uid};
use rustix::io::Errno;
use uuid::Uuid;

use crate::opened::Place;
use crate::platform::{self, Kept};
use crate::read::Reader;
use crate::undo::Pending;

const PREFIX: &str = ".sinew-tmp-";

/// What `open` gives a new file before the umask takes its part.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
/// Until the content has the mode of the file it replaces, nobody else reads it.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Whose permissions and attributes new content takes on.
#[derive(Debug)]
pub(crate) enum Likeness<'a> {
    /// Those of the file it replaces.
    Original,
    /// Those that file had before.
    Kept {
        /// A private copy of it, with its attributes.
        attributes: &'a OwnedFd,
        /// Its permissions.
        mode: u32,
    },
}

/// A name that nothing has.
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
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = if original.is_some() { PRIVATE } else { NEW_FILE };
        let file = File::from(rustix::fs::openat(&place.folder, &name, flags, mode)?);
        Ok(Temporary { place, name, file, kept: Cell::new(false), journal: None })
    }

    /// Takes in the content, and tells how long it is.
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

    /// Takes on the owner, permissions and attributes of a file. Never says more than that file did, and never
    /// runs as anyone: setuid, setgid and sticky are left behind.
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
        // The mode comes last: until then the file is private, and writable to us as attributes need it.
        let is_same_crowd = same_group && kept == Kept::All;
        rustix::fs::fchmod(&self.file, if is_same_crowd { bits } else { without_group(bits) })
    }

    /// Lets a journal know if it cannot be removed in the end.
    pub(super) fn told_by(mut self, journal: &'a Pending<'a>) -> Self {
        self.journal = Some(journal);
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a name in the folder leads to this file.
    pub(super) fn is_at(&self, name: &OsStr) -> bool {
        let (there, ours) = (platform::status_at(&self.place.folder, name), platform::status(&self.file));
        matches!((there, ours), (Ok(there), Ok(ours)) if there.facts.identity == ours.facts.identity)
    }

    /// Whether any name still leads to this file.
    pub(super) fn has_a_name(&self) -> bool {
        !platform::status(&self.file).is_ok_and(|status| status.facts.links == 0)
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept.get()
    }

    /// Leaves behind whatever has the name.
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

/// The group keeps only what everybody has: the group, or the list that the bits stood for, is not the old one.
fn without_group(bits: Mode) -> Mode {
    let everybody = (bits & Mode::RWXO).bits();
    bits & (Mode::RWXU | Mode::RWXO | Mode::from_raw_mode(everybody << 3))
}

/// The digest of a regular file by its plain name in a folder; a link is not followed.
pub(crate) fn sha256_of(folder: &OwnedFd, name: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    if platform::status(&file)?.kind != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file any more"));
    }
    Reader::new(File::from(file)).sha256()
}
