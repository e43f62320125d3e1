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
use super::record::{SavedAs, StateAfter, StateBefore, UndoRecord};
use super::store_folder::{StoreFolder, saved_object_name};
use crate::error::AccessError;
use crate::opened::EntryLocation;
use crate::platform;
use crate::tree;

/// Recorder with which a call makes changes. Each change is saved in the store that created it.
#[derive(Debug)]
pub struct ChangeRecorder {
    store: Arc<UndoStore>,
    call: CallId,
    quota: UndoQuota,
    next_number: AtomicU32,
    recorded: AtomicU32,
}

/// Handling of the undo quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndoQuota {
    Enforced,
    Ignored,
}

/// Size of an object that is to be removed: on disk if it is moved, and as a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemovalSize {
    pub(crate) allocated: u64,
    pub(crate) copy_bytes: u64,
}

/// State that a write expects to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingTarget {
    Absent,
    File,
}

/// A recorded change that may be in progress. If it is dropped before `finish`, the change has not happened.
#[derive(Debug)]
pub(crate) struct PendingChange<'a> {
    recorder: &'a ChangeRecorder,
    folder: StoreFolder,
    record: UndoRecord,
    /// Size of a copy, if the object is copied instead of moved.
    copy_bytes: u64,
    outcome: Cell<PendingOutcome>,
}

/// Handling of the record when the change ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingOutcome {
    /// The change did not happen.
    Discard,
    /// The change happened.
    Keep,
    /// Recovery at the next start determines the outcome, and removes what could not be removed now.
    LeaveForRecovery,
}

impl ChangeRecorder {
    pub(super) fn new(store: Arc<UndoStore>, call: CallId, space: UndoQuota) -> Self {
        ChangeRecorder {
            store,
            call,
            quota: space,
            next_number: AtomicU32::new(0),
            recorded: AtomicU32::new(0),
        }
    }

    /// Returns the number of recorded changes that can be undone.
    pub fn recorded_changes(&self) -> u32 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Saves the content of a file before it is replaced, or records that there is none.
    pub(crate) fn before_write(
        &self,
        location: &EntryLocation,
        was: ExistingTarget,
        sha256: &str,
        temporary: &str,
    ) -> Result<PendingChange<'_>, AccessError> {
        let after = StateAfter::File { sha256: sha256.to_owned() };
        self.begin(location, temporary, after, |key, folder| match was {
            ExistingTarget::Absent => Ok((StateBefore::Absent, 0)),
            ExistingTarget::File if self.is_disabled() => {
                Ok((StateBefore::File { sha256: None, mode: 0, saved_as: SavedAs::NotSaved }, 0))
            }
            // By name, and not through the judged handle: another process may have replaced the file since.
            ExistingTarget::File => match tree::open_file(&location.folder, &location.leaf) {
                Ok(file) => self.save_copy(folder, key, file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((StateBefore::Absent, 0)),
                Err(error) => Err(error),
            },
        })
    }

    /// Records that folders are about to be created, with a file of this digest in the innermost one if there
    /// is a digest.
    pub(crate) fn before_creating_folders(
        &self,
        location: &EntryLocation,
        below: &[OsString],
        sha256: Option<&str>,
        temporary: &str,
    ) -> Result<PendingChange<'_>, AccessError> {
        let after = StateAfter::Folders { below: below.to_vec(), sha256: sha256.map(str::to_owned) };
        self.begin(location, temporary, after, |_, _| Ok((StateBefore::Absent, 0)))
    }

    /// Records that an object of this size is about to be removed. The removal decides whether it is moved or
    /// copied.
    pub(crate) fn before_removal(
        &self,
        location: &EntryLocation,
        was: StateBefore,
        weight: RemovalSize,
        temporary: &str,
    ) -> Result<PendingChange<'_>, AccessError> {
        let mut pending =
            self.begin(location, temporary, StateAfter::Absent, |_, _| Ok((was, weight.allocated)))?;
        pending.copy_bytes = weight.copy_bytes;
        Ok(pending)
    }

    fn begin(
        &self,
        location: &EntryLocation,
        temporary: &str,
        after: StateAfter,
        keep: impl FnOnce(&str, &StoreFolder) -> io::Result<(StateBefore, u64)>,
    ) -> Result<PendingChange<'_>, AccessError> {
        let failed = |error: io::Error| match error.downcast::<UndoQuotaExceeded>() {
            Ok(UndoQuotaExceeded { bytes, limit: most, in_use: taken }) => {
                AccessError::TooLargeForUndo { path: location.path(), bytes, limit: most, in_use: taken }
            }
            Err(error) => AccessError::io("saving the previous state of", &location.path(), error),
        };
        let folder = self.store.folder().map_err(failed)?;
        let mut record = UndoRecord {
            call_id: self.call,
            number: self.next_number.fetch_add(1, Ordering::Relaxed),
            saved_ms: (self.store.now)(),
            folder: location.folder_path.clone().into_os_string(),
            leaf: location.leaf.clone(),
            temporary: temporary.to_owned(),
            before: StateBefore::Absent,
            after,
            bytes: 0,
        };
        let saved = keep(&record.key(), &folder).and_then(|(before, bytes)| {
            (record.before, record.bytes) = (before, bytes);
            self.reserve(&folder, &record)?;
            folder.write_pending(&record)
        });
        if let Err(error) = saved {
            self.store.dismiss(&folder, &record);
            return Err(failed(error));
        }
        Ok(PendingChange {
            recorder: self,
            folder,
            record,
            copy_bytes: 0,
            outcome: Cell::new(PendingOutcome::Discard),
        })
    }

    fn reserve(&self, folder: &StoreFolder, record: &UndoRecord) -> io::Result<()> {
        if self.is_disabled() {
            return Ok(());
        }
        let most = self.store.limits.keep_bytes;
        let refused =
            |taken| io::Error::other(UndoQuotaExceeded { bytes: record.bytes, limit: most, in_use: taken });
        self.store.reserve(folder, record, self.quota).map_err(refused)
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.store.limits.keep_bytes == 0
    }

    /// Copies a file into the store with its attributes. The copy is private; the permissions go into the
    /// record.
    fn save_copy(&self, folder: &StoreFolder, key: &str, original: File) -> io::Result<(StateBefore, u64)> {
        let status = platform::status(&original)?;
        let mut copy = folder.create(&saved_object_name(key))?;
        let source = original.try_clone()?;
        let (sha256, bytes) = copy_and_digest(source, &mut copy, self.store.limits.keep_bytes)?;
        platform::copy_attributes(&OwnedFd::from(original), &copy);
        rustix::fs::fchmod(&copy, Mode::RUSR | Mode::WUSR)?;
        platform::sync_file(&copy)?;
        let (sha256, mode, saved_as) = (Some(sha256), status.facts.mode, SavedAs::Copied);
        Ok((StateBefore::File { sha256, mode, saved_as }, bytes))
    }
}

/// A state that does not fit into the undo quota.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes exceed the undo quota of {limit}")]
struct UndoQuotaExceeded {
    bytes: u64,
    limit: u64,
    in_use: u64,
}

fn copy_and_digest(source: File, copy: &mut File, most: u64) -> io::Result<(String, u64)> {
    let mut reader = crate::read::FileReader::new(source);
    let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0_u64, vec![0; 64 * 1024]);
    loop {
        let length = reader.read(&mut buffer)?;
        let part = buffer.get(..length).unwrap_or_default();
        if part.is_empty() {
            return Ok((tool::canonical::hex(&hasher.finalize()), bytes));
        }
        bytes = bytes.saturating_add(length as u64);
        if bytes > most {
            return Err(io::Error::other(UndoQuotaExceeded { bytes, limit: most, in_use: 0 }));
        }
        hasher.update(part);
        copy.write_all(part)?;
    }
}

impl PendingChange<'_> {
    /// Returns true if the saved content has this digest.
    pub(crate) fn has_saved(&self, sha256: &str) -> bool {
        match &self.record.before {
            StateBefore::File { sha256: Some(saved), .. } => saved == sha256,
            StateBefore::File { sha256: None, .. } => true,
            StateBefore::Absent | StateBefore::Link { .. } | StateBefore::Folder { .. } => false,
        }
    }

    /// Moves the object itself into the store; `EXDEV` if it is on another volume.
    pub(crate) fn move_into_store(&self, location: &EntryLocation) -> Result<(), Errno> {
        let name = saved_object_name(&self.record.key());
        let to = |flags| {
            rustix::fs::renameat_with(&location.folder, &location.leaf, &self.folder.handle, &name, flags)
        };
        match to(RenameFlags::NOREPLACE) {
            // No other entry has that name, so nothing can be overwritten.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => to(RenameFlags::empty())?,
            taken => taken?,
        }
        self.outcome.set(PendingOutcome::Keep);
        Ok(())
    }

    /// Moves the object back. If its name is taken by now, the object stays in the store and can be restored
    /// later.
    pub(crate) fn move_back(&self, location: &EntryLocation) -> Result<(), Errno> {
        let name = saved_object_name(&self.record.key());
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.folder.handle, name, &location.folder, &location.leaf, flags)?;
        self.outcome.set(PendingOutcome::Discard);
        Ok(())
    }

    /// Returns the store folder and the name of the moved object in it.
    pub(crate) fn moved_entry(&self) -> (&OwnedFd, String) {
        (&self.folder.handle, saved_object_name(&self.record.key()))
    }

    /// Makes the move durable.
    pub(crate) fn sync_store(&self, path: &Path) -> Result<(), AccessError> {
        self.folder.sync().map_err(|error| AccessError::io("saving", path, error))
    }

    pub(crate) fn temporary(&self) -> &str {
        &self.record.temporary
    }

    /// Copies an object that cannot be moved, and updates the record.
    pub(crate) fn copy_into_store(&mut self, location: &EntryLocation) -> io::Result<()> {
        let key = self.record.key();
        self.record.bytes = self.copy_bytes;
        self.recorder.reserve(&self.folder, &self.record)?;
        self.folder.remove_pending(&key)?;
        let (to, name) = (&self.folder.handle, saved_object_name(&key));
        match &mut self.record.before {
            StateBefore::File { saved_as, sha256, mode } => {
                let file = tree::open_file(&location.folder, &location.leaf)?;
                let (saved, _) = self.recorder.save_copy(&self.folder, &key, file)?;
                if let StateBefore::File { sha256: new, mode: bits, .. } = saved {
                    (*sha256, *mode) = (new, bits);
                }
                *saved_as = SavedAs::Copied;
            }
            StateBefore::Folder { saved_as } => {
                tree::copy_tree(&location.folder, &location.leaf, to, name.as_ref())?;
                *saved_as = SavedAs::Copied;
            }
            StateBefore::Absent | StateBefore::Link { .. } => {}
        }
        self.folder.write_pending(&self.record)
    }

    /// Keeps the saved state although the operation failed, because the original could not be put back.
    pub(crate) fn keep_saved(&self) {
        if self.outcome.get() != PendingOutcome::LeaveForRecovery {
            self.outcome.set(PendingOutcome::Keep);
        }
    }

    /// Leaves the record to recovery at the next start, because something could not be removed.
    pub(crate) fn leave_for_recovery(&self) {
        self.outcome.set(PendingOutcome::LeaveForRecovery);
    }

    /// Marks the change as completed.
    pub(crate) fn finish(self) {
        if self.outcome.get() != PendingOutcome::LeaveForRecovery {
            self.outcome.set(PendingOutcome::Keep);
        }
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        let key = self.record.key();
        match self.outcome.get() {
            PendingOutcome::LeaveForRecovery => return,
            PendingOutcome::Keep if !self.recorder.is_disabled() => {}
            PendingOutcome::Discard | PendingOutcome::Keep => {
                return self.recorder.store.dismiss(&self.folder, &self.record);
            }
        }
        // If this fails, the record stays pending, and recovery at the next start handles it.
        if self.folder.mark_done(&key).is_ok() {
            self.recorder.recorded.fetch_add(1, Ordering::Relaxed);
            self.recorder.store.admit(&self.folder, &self.record);
        }
    }
}
