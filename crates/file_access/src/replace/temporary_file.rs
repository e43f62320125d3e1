//! Temporary file of a write: created under a random name, filled, given the permissions of the file it
//! replaces, and synced.
//!
//! On drop, the file with the temporary name is removed. After an exchange of names that is the old file.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, RawMode, Uid};
use rustix::io::Errno;
use tool::canonical;

use crate::opened::EntryLocation;
use crate::platform::{self, AttributeCopy};
use crate::read::FileReader;
use crate::tree;
use crate::undo::PendingChange;

const PREFIX: &str = ".sinew-tmp-";
/// Characters of a file name that its conflict name begins with.
const MAX_CONFLICT_LEAF: usize = 48;

/// Permissions that `open` uses for a new file before the umask applies.
const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o666);
/// Permissions until the file has those of the file it replaces, so that no other user can read it.
const PRIVATE_MODE: Mode = Mode::from_raw_mode(0o600);

/// Source of the permissions and attributes of new content.
#[derive(Debug)]
pub(crate) enum MetadataSource<'a> {
    /// The file that is replaced.
    Original,
    /// The saved state of that file.
    Saved {
        /// Private copy that has the attributes.
        attributes: &'a OwnedFd,
        /// Permission bits.
        mode: u32,
    },
}

/// Returns a random name.
pub(crate) fn new_temporary_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        error.raw_os_error().map_or(io::ErrorKind::Other.into(), io::Error::from_raw_os_error)
    })?;
    Ok(format!("{PREFIX}{}", canonical::hex(&random)))
}

#[derive(Debug)]
pub(super) struct TemporaryFile<'a> {
    location: &'a EntryLocation,
    name: String,
    file: File,
    retained: Cell<bool>,
    journal: Option<&'a PendingChange<'a>>,
}

impl<'a> TemporaryFile<'a> {
    pub(super) fn create(
        location: &'a EntryLocation,
        name: String,
        original: Option<&OwnedFd>,
    ) -> io::Result<Self> {
        let mode = if original.is_some() { PRIVATE_MODE } else { NEW_FILE_MODE };
        let file = tree::create_file(&location.folder, &name, mode)?;
        Ok(TemporaryFile { location, name, file, retained: Cell::new(false), journal: None })
    }

    /// Writes and syncs the content, and returns its size.
    pub(super) fn fill(
        mut self,
        content: &mut dyn Read,
        original: Option<&OwnedFd>,
        metadata_source: &MetadataSource<'_>,
    ) -> io::Result<(Self, u64)> {
        let bytes = io::copy(content, &mut self.file)?;
        if let Some(original) = original {
            self.copy_metadata(original, metadata_source)?;
        }
        platform::sync_file(&self.file)?;
        Ok((self, bytes))
    }

    /// Copies owner, permissions and attributes of a file. Never grants more than that file did: setuid,
    /// setgid and sticky bits are dropped.
    fn copy_metadata(&self, original: &OwnedFd, metadata_source: &MetadataSource<'_>) -> Result<(), Errno> {
        let (old, new) = (rustix::fs::fstat(original)?, rustix::fs::fstat(&self.file)?);
        let owner = (old.st_uid != new.st_uid).then(|| Uid::from_raw(old.st_uid));
        let group = (old.st_gid != new.st_gid).then(|| Gid::from_raw(old.st_gid));
        let owned = rustix::fs::fchown(&self.file, owner, group);
        let same_group = owned.or_else(|_| rustix::fs::fchown(&self.file, None, group)).is_ok();
        let (model, mode) = match metadata_source {
            MetadataSource::Original => (original, old.st_mode),
            MetadataSource::Saved { attributes, mode } => {
                (*attributes, RawMode::try_from(*mode).unwrap_or_default())
            }
        };
        let attribute_copy = match platform::reopen_for_reading(model) {
            Ok(readable) => platform::copy_attributes(&readable, &self.file),
            Err(_) => AttributeCopy::WithoutAcl,
        };
        let bits = Mode::from_raw_mode(mode) & (Mode::RWXU | Mode::RWXG | Mode::RWXO);
        // The mode comes last: until then the file is private, and this process can write it, which the
        // attributes need.
        let has_same_readers = same_group && attribute_copy == AttributeCopy::Complete;
        rustix::fs::fchmod(&self.file, if has_same_readers { bits } else { restrict_group(bits) })
    }

    /// Sets the journal that is notified if the temporary file cannot be removed.
    pub(super) fn with_journal(mut self, journal: &'a PendingChange<'a>) -> Self {
        self.journal = Some(journal);
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns a visible name for the previous file, if it cannot be put back.
    pub(super) fn conflict_name(&self, leaf: &OsStr) -> String {
        // Cut, so that the longest name of a file system is not exceeded.
        let leaf: String = leaf.to_string_lossy().chars().take(MAX_CONFLICT_LEAF).collect();
        let random = self.name.get(PREFIX.len()..).unwrap_or_default();
        format!("{leaf}.conflict-{random}")
    }

    /// Returns true if a name in the folder leads to this file.
    pub(super) fn has_name(&self, name: &OsStr) -> bool {
        let (found, own_status) =
            (platform::status_at(&self.location.folder, name), platform::status(&self.file));
        matches!((found, own_status), (Ok(found), Ok(own_status)) if found.facts.identity == own_status.facts.identity)
    }

    /// Returns true if any name still leads to this file.
    pub(super) fn is_linked(&self) -> bool {
        !platform::status(&self.file).is_ok_and(|status| status.facts.links == 0)
    }

    pub(super) fn is_retained(&self) -> bool {
        self.retained.get()
    }

    /// Keeps the file with the temporary name on drop.
    pub(super) fn retain(&self) {
        self.retained.set(true);
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if self.retained.get() {
            return;
        }
        match rustix::fs::unlinkat(&self.location.folder, &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => self.journal.iter().for_each(|journal| journal.leave_for_recovery()),
        }
    }
}

/// Limits the group's bits to those of others. The file has another group than before, or lacks the access
/// control list whose mask the bits showed.
fn restrict_group(bits: Mode) -> Mode {
    let others = (bits & Mode::RWXO).bits();
    bits & (Mode::RWXU | Mode::RWXO | Mode::from_raw_mode(others << 3))
}

/// Returns the SHA-256 of a regular file by its plain name in a folder. Does not follow a link.
pub(crate) fn file_sha256(folder: &OwnedFd, name: &Path) -> io::Result<String> {
    FileReader::new(tree::open_file(folder, name.as_os_str())?).sha256()
}
