//! How much is kept: the oldest states go when they are too old, or when all together are too large.

use std::sync::PoisonError;

use super::folder::Folder;
use super::record::Record;
use super::{Index, KEPT, UndoStore, now_ms};

impl UndoStore {
    /// Counts a new state, and lets the oldest go until all fit.
    pub(super) fn admit(&self, folder: &Folder, record: &Record) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.entry(self.path.clone()).or_insert_with(|| load(folder));
        index.insert((record.saved_ms, record.key()), record.bytes);
        self.prune(folder, index);
    }

    /// Lets go of what is too old, and of the oldest until the rest fits.
    pub(super) fn prune(&self, folder: &Folder, index: &mut Index) {
        let age = u64::try_from(self.limits.keep_for.as_millis()).unwrap_or(u64::MAX);
        let oldest_kept = now_ms().saturating_sub(age);
        let mut total: u64 = index.values().sum();
        while let Some(entry) = index.first_entry() {
            if entry.key().0 >= oldest_kept && total <= self.limits.keep_bytes {
                break;
            }
            let ((_, key), bytes) = entry.remove_entry();
            folder.forget(&key);
            total = total.saturating_sub(bytes);
        }
    }

    /// Takes a state off the count.
    pub(super) fn dismiss(&self, folder: &Folder, record: &Record) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = kept.get_mut(&self.path) {
            index.remove(&(record.saved_ms, record.key()));
        }
        folder.forget(&record.key());
    }
}

/// What is kept, by the records on disk.
pub(super) fn load(folder: &Folder) -> Index {
    let names = folder.names().unwrap_or_default();
    let records =
        names.iter().filter(|name| name.ends_with(".json")).filter_map(|name| folder.read(name).ok());
    records.map(|record| ((record.saved_ms, record.key()), record.bytes)).collect()
}
