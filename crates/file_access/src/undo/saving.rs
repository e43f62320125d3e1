//! Saves the state before a change. The saved state is on the disk before the change begins.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use tool::CallId;

use super::UndoStore;
use super::folder::{Folder, before};
use super::record::{After, Before, Held, Record};
use crate::error::AccessError;
use crate::opened::Place;
use crate::platform;
use crate::tree;

/// Recorder with which a call makes changes. Each change is saved in the store that created it.
#[derive(Debug)]
pub struct Saving {
    store: Arc<UndoStore>,
    call: CallId,
    room: Room,
    begun: AtomicU32,
    kept: AtomicU32,
}

/// Handling of the undo quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Bounded,
    Unbounded,
}

/// Size of an object that is to be removed: on disk if it is moved, and as a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    pub(crate) allocated: u64,
    pub(crate) copied: u64,
}

/// State that a write expects to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Absent,
    File,
}

/// A recorded change that may be in progress. If it is dropped before `finish`, the change has not happened.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    saving: &'a Saving,
    folder: Folder,
    record: Record,
    /// Size of a copy, if the object is copied instead of moved.
    copied: u64,
    end: Cell<End>,
}

/// Handling of the record when the change ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The change did not happen.
    Forget,
    /// The change happened.
    Keep,
    /// Recovery at the next start determines the outcome, and removes what could not be removed now.
    Leave,
}

impl Saving {
    pub(super) fn new(store: Arc<UndoStore>, call: CallId, room: Room) -> Self {
        Saving { store, call, room, begun: AtomicU32::new(0), kept: AtomicU32::new(0) }
    }

    /// Returns the number of recorded changes that can be undone.
    pub fn kept(&self) -> u32 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Saves the content of a file before it is replaced, or records that there is none.
    pub(crate) fn before_write(
        &self,
        place: &Place,
        was: Was,
        sha256: &str,
        temporary: &str,
    ) -> Result<Pending<'_>, AccessError> {
        let after = After::File { sha256: sha256.to_owned() };
        self.begin(place, temporary, after, |key, folder| match was {
            Was::Absent => Ok((Before::Absent, 0)),
            Was::File if self.keeps_nothing() => {
                Ok((Before::File { sha256: None, mode: 0, held: Held::Not }, 0))
            }
            // By name, and not through the judged handle: another process may have replaced the file since.
            Was::File => match tree::open_file(&place.folder, &place.leaf) {
                Ok(file) => self.copy(folder, key, file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Before::Absent, 0)),
                Err(error) => Err(error),
            },
        })
    }

    /// Records that folders are about to be created, with a file of this digest in the innermost one if there
    /// is a digest.
    pub(crate) fn before_making(
        &self,
        place: &Place,
        below: &[OsString],
        sha256: Option<&str>,
        temporary: &str,
    ) -> Result<Pending<'_>, AccessError> {
        let after = After::Folders { below: below.to_vec(), sha256: sha256.map(str::to_owned) };
        self.begin(place, temporary, after, |_, _| Ok((Before::Absent, 0)))
    }

    /// Records that an object of this size is about to be removed. The removal decides whether it is moved or
    /// copied.
    pub(crate) fn before_removal(
        &self,
        place: &Place,
        was: Before,
        weight: Weight,
        temporary: &str,
    ) -> Result<Pending<'_>, AccessError> {
        let mut pending = self.begin(place, temporary, After::Absent, |_, _| Ok((was, weight.allocated)))?;
        pending.copied = weight.copied;
        Ok(pending)
    }

    fn begin(
        &self,
        place: &Place,
        temporary: &str,
        after: After,
        keep: impl FnOnce(&str, &Folder) -> io::Result<(Before, u64)>,
    ) -> Result<Pending<'_>, AccessError> {
        let failed = |error: io::Error| match error.downcast::<TooMuch>() {
            Ok(TooMuch { bytes, most, taken }) => {
                AccessError::TooLargeToKeep { path: place.path(), bytes, most, taken }
            }
            Err(error) => AccessError::io("saving the previous state of", &place.path(), error),
        };
        let folder = self.store.folder().map_err(failed)?;
        let mut record = Record {
            call_id: self.call,
            number: self.begun.fetch_add(1, Ordering::Relaxed),
            saved_ms: (self.store.now)(),
            folder: place.folder_name.clone().into_os_string(),
            leaf: place.leaf.clone(),
            temporary: temporary.to_owned(),
            before: Before::Absent,
            after,
            bytes: 0,
        };
        let kept = keep(&record.key(), &folder).and_then(|(before, bytes)| {
            (record.before, record.bytes) = (before, bytes);
            self.reserve(&folder, &record)?;
            folder.begin(&record)
        });
        if let Err(error) = kept {
            self.store.dismiss(&folder, &record);
            return Err(failed(error));
        }
        Ok(Pending { saving: self, folder, record, copied: 0, end: Cell::new(End::Forget) })
    }

    fn reserve(&self, folder: &Folder, record: &Record) -> io::Result<()> {
        if self.keeps_nothing() {
            return Ok(());
        }
        let most = self.store.limits.keep_bytes;
        let refused = |taken| io::Error::other(TooMuch { bytes: record.bytes, most, taken });
        self.store.reserve(folder, record, self.room).map_err(refused)
    }

    pub(crate) fn keeps_nothing(&self) -> bool {
        self.store.limits.keep_bytes == 0
    }

    /// Copies a file into the store with its attributes. The copy is private; the permissions go into the
    /// record.
    fn copy(&self, folder: &Folder, key: &str, original: File) -> io::Result<(Before, u64)> {
        let status = platform::status(&original)?;
        let mut copy = folder.create(&before(key))?;
        let source = original.try_clone()?;
        let (sha256, bytes) = copy_and_digest(source, &mut copy, self.store.limits.keep_bytes)?;
        platform::copy_attributes(&OwnedFd::from(original), &copy);
        rustix::fs::fchmod(&copy, Mode::RUSR | Mode::WUSR)?;
        platform::sync_file(&copy)?;
        let (sha256, mode, held) = (Some(sha256), status.facts.mode, Held::Copied);
        Ok((Before::File { sha256, mode, held }, bytes))
    }
}

/// A state that does not fit into the undo quota.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes exceed the undo quota of {most}")]
struct TooMuch {
    bytes: u64,
    most: u64,
    taken: u64,
}

fn copy_and_digest(source: File, copy: &mut File, most: u64) -> io::Result<(String, u64)> {
    let mut reader = crate::read::Reader::new(source);
    let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0_u64, vec![0; 64 * 1024]);
    loop {
        let length = reader.read(&mut buffer)?;
        let part = buffer.get(..length).unwrap_or_default();
        if part.is_empty() {
            return Ok((tool::canonical::hex(&hasher.finalize()), bytes));
        }
        bytes = bytes.saturating_add(length as u64);
        if bytes > most {
            return Err(io::Error::other(TooMuch { bytes, most, taken: 0 }));
        }
        hasher.update(part);
        copy.write_all(part)?;
    }
}

impl Pending<'_> {
    /// Returns true if the saved content has this digest.
    pub(crate) fn holds(&self, sha256: &str) -> bool {
        match &self.record.before {
            Before::File { sha256: Some(kept), .. } => kept == sha256,
            Before::File { sha256: None, .. } => true,
            Before::Absent | Before::Link { .. } | Before::Folder { .. } => false,
        }
    }

    /// Moves the object itself into the store; `EXDEV` if it is on another volume.
    pub(crate) fn take(&self, place: &Place) -> Result<(), Errno> {
        let name = before(&self.record.key());
        let to =
            |flags| rustix::fs::renameat_with(&place.folder, &place.leaf, &self.folder.handle, &name, flags);
        match to(RenameFlags::NOREPLACE) {
            // No other entry has that name, so nothing can be overwritten.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => to(RenameFlags::empty())?,
            taken => taken?,
        }
        self.end.set(End::Keep);
        Ok(())
    }

    /// Moves the object back. If its name is taken by now, the object stays in the store and can be restored
    /// later.
    pub(crate) fn give_back(&self, place: &Place) -> Result<(), Errno> {
        let name = before(&self.record.key());
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.folder.handle, name, &place.folder, &place.leaf, flags)?;
        self.end.set(End::Forget);
        Ok(())
    }

    /// Returns the store folder and the name of the moved object in it.
    pub(crate) fn taken(&self) -> (&OwnedFd, String) {
        (&self.folder.handle, before(&self.record.key()))
    }

    /// Makes the move durable.
    pub(crate) fn sync_taken(&self, path: &Path) -> Result<(), AccessError> {
        self.folder.sync().map_err(|error| AccessError::io("saving", path, error))
    }

    pub(crate) fn temporary(&self) -> &str {
        &self.record.temporary
    }

    /// Copies an object that cannot be moved, and updates the record.
    pub(crate) fn copy_instead(&mut self, place: &Place) -> io::Result<()> {
        let key = self.record.key();
        self.record.bytes = self.copied;
        self.saving.reserve(&self.folder, &self.record)?;
        self.folder.withdraw(&key)?;
        let (to, name) = (&self.folder.handle, before(&key));
        match &mut self.record.before {
            Before::File { held, sha256, mode } => {
                let file = tree::open_file(&place.folder, &place.leaf)?;
                let (kept, _) = self.saving.copy(&self.folder, &key, file)?;
                if let Before::File { sha256: new, mode: bits, .. } = kept {
                    (*sha256, *mode) = (new, bits);
                }
                *held = Held::Copied;
            }
            Before::Folder { held } => {
                tree::copy(&place.folder, &place.leaf, to, name.as_ref())?;
                *held = Held::Copied;
            }
            Before::Absent | Before::Link { .. } => {}
        }
        self.folder.begin(&self.record)
    }

    /// Keeps the saved state although the operation failed, because the original could not be put back.
    pub(crate) fn keep(&self) {
        if self.end.get() != End::Leave {
            self.end.set(End::Keep);
        }
    }

    /// Leaves the record to recovery at the next start, because something could not be removed.
    pub(crate) fn leave(&self) {
        self.end.set(End::Leave);
    }

    /// Marks the change as completed.
    pub(crate) fn finish(self) {
        if self.end.get() != End::Leave {
            self.end.set(End::Keep);
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let key = self.record.key();
        match self.end.get() {
            End::Leave => return,
            End::Keep if !self.saving.keeps_nothing() => {}
            End::Forget | End::Keep => return self.saving.store.dismiss(&self.folder, &self.record),
        }
        // If this fails, the record stays pending, and recovery at the next start handles it.
        if self.folder.finish(&key).is_ok() {
            self.saving.kept.fetch_add(1, Ordering::Relaxed);
            self.saving.store.admit(&self.folder, &self.record);
        }
    }
}
