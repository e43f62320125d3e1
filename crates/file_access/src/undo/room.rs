//! Quota of the undo store: prunes states that are too old, and the oldest ones if the total is too large.
//! States of the last day are never pruned for space. Otherwise a caller could make a change final by filling
//! the store.

use std::sync::PoisonError;
use std::time::Duration;

use super::folder::Folder;
use super::record::Record;
use super::saving::Room;
use super::{Index, KEPT, UndoStore};

/// Age up to which a state is not pruned for space. The operator has a day to review changes.
const YOUNG: Duration = Duration::from_secs(24 * 60 * 60);

impl UndoStore {
    /// Reserves space for a state, next to the states that may not be pruned. Returns the size of those if it
    /// does not fit.
    pub(super) fn reserve(&self, folder: &Folder, record: &Record, room: Room) -> Result<(), u64> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.entry(self.path.clone()).or_insert_with(|| load(folder));
        let own = (record.saved_ms, record.key());
        let recent = self.since(YOUNG.min(self.limits.keep_for));
        let young = index.iter().filter(|(key, _)| key.0 >= recent && **key != own);
        let taken = young.map(|(_, bytes)| bytes).sum::<u64>();
        let fits = taken.saturating_add(record.bytes) <= self.limits.keep_bytes;
        if room == Room::Bounded && !fits {
            return Err(taken);
        }
        index.insert(own, record.bytes);
        Ok(())
    }

    /// Adds a reserved state to the index and prunes the oldest states until all fit.
    pub(super) fn admit(&self, folder: &Folder, record: &Record) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.entry(self.path.clone()).or_insert_with(|| load(folder));
        index.insert((record.saved_ms, record.key()), record.bytes);
        self.prune(folder, index);
    }

    /// Prunes states that are too old, and the oldest until the rest fits, but none of the last day.
    pub(super) fn prune(&self, folder: &Folder, index: &mut Index) {
        let (oldest_kept, recent) = (self.since(self.limits.keep_for), self.since(YOUNG));
        let mut total: u64 = index.values().sum();
        while let Some(entry) = index.first_entry() {
            let saved = entry.key().0;
            let is_surplus = total > self.limits.keep_bytes && saved < recent;
            if saved >= oldest_kept && !is_surplus {
                break;
            }
            let ((_, key), bytes) = entry.remove_entry();
            folder.forget(&key);
            total = total.saturating_sub(bytes);
        }
    }

    /// Returns the current time minus `age`, in milliseconds.
    fn since(&self, age: Duration) -> u64 {
        (self.now)().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// Removes a state from the index and the store.
    pub(super) fn dismiss(&self, folder: &Folder, record: &Record) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = kept.get_mut(&self.path) {
            index.remove(&(record.saved_ms, record.key()));
        }
        folder.forget(&record.key());
    }
}

/// Loads the index from the records on disk.
pub(super) fn load(folder: &Folder) -> Index {
    let names = folder.names().unwrap_or_default();
    let records =
        names.iter().filter(|name| name.ends_with(".json")).filter_map(|name| folder.read(name).ok());
    records.map(|record| ((record.saved_ms, record.key()), record.bytes)).collect()
}
