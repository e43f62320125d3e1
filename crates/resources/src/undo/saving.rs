//! Saving the state before a change, as part of the change: what is kept is on the disk before anything else happens.

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

/// What a call makes changes with: each of them is kept in the store this came from.
#[derive(Debug)]
pub struct Saving {
    store: Arc<UndoStore>,
    call: CallId,
    room: Room,
    begun: AtomicU32,
    kept: AtomicU32,
}

/// Whether what is kept must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Bounded,
    Unbounded,
}

/// What is to be removed takes so much: on the disk where it is, and as a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    pub(crate) allocated: u64,
    pub(crate) copied: u64,
}

/// What a write expects to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Absent,
    File,
}

/// A change that is on record and may be under way. Dropped before it is finished, it has not taken place.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    saving: &'a Saving,
    folder: Folder,
    record: Record,
    /// What a copy takes, where one is made instead of taking the thing itself.
    copied: u64,
    end: Cell<End>,
}

/// What becomes of the record when the change is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It has not taken place.
    Forget,
    /// It has.
    Keep,
    /// The next start finds out, and removes what could not be removed now.
    Leave,
}

impl Saving {
    pub(super) fn new(store: Arc<UndoStore>, call: CallId, room: Room) -> Self {
        Saving { store, call, room, begun: AtomicU32::new(0), kept: AtomicU32::new(0) }
    }

    /// How many changes of the call can be taken back.
    pub fn kept(&self) -> u32 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Keeps what a file holds before it is replaced, or that there is none.
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
            // By its name, and not through the handle that was judged: others may have replaced it since.
            Was::File => match tree::open_file(&place.folder, &place.leaf) {
                Ok(file) => self.copy(folder, key, file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Before::Absent, 0)),
                Err(error) => Err(error),
            },
        })
    }

    /// Puts on record that folders are about to be made, with a file of this digest in the last of them or with none.
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

    /// Puts on record that something of this size is about to be removed. How it is kept turns out when it is taken.
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
            Err(error) => AccessError::io("keeping the state before a change of", &place.path(), error),
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

    /// A private copy with the attributes of the file; its permissions go into the record.
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

/// More than the store takes.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes do not fit into the {most} that are kept")]
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
    /// Whether this is the content that was kept.
    pub(crate) fn holds(&self, sha256: &str) -> bool {
        match &self.record.before {
            Before::File { sha256: Some(kept), .. } => kept == sha256,
            Before::File { sha256: None, .. } => true,
            Before::Absent | Before::Link { .. } | Before::Folder { .. } => false,
        }
    }

    /// Takes the very object into the store; `EXDEV` where it is on another volume.
    pub(crate) fn take(&self, place: &Place) -> Result<(), Errno> {
        let name = before(&self.record.key());
        let to =
            |flags| rustix::fs::renameat_with(&place.folder, &place.leaf, &self.folder.handle, &name, flags);
        match to(RenameFlags::NOREPLACE) {
            // Nothing else has that name, so nothing can be overwritten.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => to(RenameFlags::empty())?,
            taken => taken?,
        }
        self.end.set(End::Keep);
        Ok(())
    }

    /// Puts back what was taken, unless something else has the name by now: then it stays, and can be restored later.
    pub(crate) fn give_back(&self, place: &Place) -> Result<(), Errno> {
        let name = before(&self.record.key());
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.folder.handle, name, &place.folder, &place.leaf, flags)?;
        self.end.set(End::Forget);
        Ok(())
    }

    /// The folder of the store and the name in it of what was taken.
    pub(crate) fn taken(&self) -> (&OwnedFd, String) {
        (&self.folder.handle, before(&self.record.key()))
    }

    /// Makes it last that something was taken.
    pub(crate) fn sync_taken(&self, path: &Path) -> Result<(), AccessError> {
        self.folder.sync().map_err(|error| AccessError::io("keeping", path, error))
    }

    pub(crate) fn temporary(&self) -> &str {
        &self.record.temporary
    }

    /// Copies what a name leads to, for where it cannot be taken; the record then says so.
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

    /// Whatever went wrong, what was kept stays: something could not be put back.
    pub(crate) fn keep(&self) {
        if self.end.get() != End::Leave {
            self.end.set(End::Keep);
        }
    }

    /// Something could not be removed: the next start tries again.
    pub(crate) fn leave(&self) {
        self.end.set(End::Leave);
    }

    /// The change has taken place.
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
        // Where that fails the record is still there as one of a change under way, and is settled at the next start.
        if self.folder.finish(&key).is_ok() {
            self.saving.kept.fetch_add(1, Ordering::Relaxed);
            self.saving.store.admit(&self.folder, &self.record);
        }
    }
}
