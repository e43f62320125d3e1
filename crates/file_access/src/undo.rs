//! Undo store: the state before each change of a call, so that the change can be undone.
//!
//! Nothing is replaced or removed through a handle without a `ChangeRecorder`, which only a store creates. It
//! saves the previous state to the disk before the change begins. The same record is the journal of the
//! change: after a crash it shows which temporary name was left where and whether the change happened.
//! `UndoStore::recover` uses it at the next start.
//!
//! This module does not decide who may undo a change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tool::CallId;

mod change_recorder;
mod created_tree;
mod record;
mod recovery;
mod restore;
mod revert_check;
mod store_folder;

use record::UndoRecord;
use store_folder::StoreFolder;

pub use change_recorder::ChangeRecorder;
pub(crate) use change_recorder::PendingChange;
use change_recorder::UndoQuota;
pub(crate) use change_recorder::{ExistingTarget, RemovalSize};
pub(crate) use created_tree::CreatedTree;
pub(crate) use record::{SavedAs, StateBefore};
pub use restore::{Reversal, RevertedChange};

/// Age up to which a state is not pruned for space. The operator has a day to review changes.
const PROTECTED_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Limits on the size and age of saved states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoLimits {
    /// Maximum total size. The oldest states are pruned first, but none of the last day: a change that does
    /// not fit next to those is refused. 0 disables undo.
    pub keep_bytes: u64,
    /// Maximum age of a state.
    pub keep_for: Duration,
}

/// Store of states before changes, in a private folder that one process uses at a time.
#[derive(Debug)]
pub struct UndoStore {
    path: PathBuf,
    limits: UndoLimits,
    /// Clock, in milliseconds since 1970.
    now: fn() -> u64,
}

/// Size of each state, by its time in milliseconds since 1970 and its key.
type StateIndex = BTreeMap<(u64, String), u64>;

/// Index of each store folder, oldest state first, loaded on first use. It is shared because a reload creates
/// a second store of the same folder.
static STATE_INDEXES: Mutex<BTreeMap<PathBuf, StateIndex>> = Mutex::new(BTreeMap::new());

impl UndoStore {
    /// Creates the store for this folder. The folder is created when it is first needed.
    pub fn at(path: &Path, limits: UndoLimits) -> Arc<Self> {
        Arc::new(UndoStore { path: path.to_owned(), limits, now: now_ms })
    }

    /// Returns the recorder with which a call makes changes.
    pub fn for_call(self: &Arc<Self>, call: CallId) -> ChangeRecorder {
        ChangeRecorder::new(Arc::clone(self), call, UndoQuota::Enforced)
    }

    /// Returns the recorder with which an undo makes changes. It ignores the quota: the operator undoes
    /// changes rarely, and a full store must not prevent an undo.
    pub fn for_undo(self: &Arc<Self>, call: CallId) -> ChangeRecorder {
        ChangeRecorder::new(Arc::clone(self), call, UndoQuota::Ignored)
    }

    fn folder(&self) -> std::io::Result<StoreFolder> {
        StoreFolder::open(&self.path)
    }
}

/// Quota: states that are too old are pruned, and the oldest ones if the total is too large. States of the last
/// day are never pruned for space. Otherwise a caller could make a change final by filling the store.
impl UndoStore {
    /// Reserves space for a state, next to the states that may not be pruned. Returns the size of those if it
    /// does not fit.
    fn reserve(&self, folder: &StoreFolder, record: &UndoRecord, available: UndoQuota) -> Result<(), u64> {
        let mut indexes = STATE_INDEXES.lock().unwrap_or_else(PoisonError::into_inner);
        let index = indexes.entry(self.path.clone()).or_insert_with(|| load(folder));
        let own = (record.saved_ms, record.key());
        let recent = self.cutoff(PROTECTED_AGE.min(self.limits.keep_for));
        let young = index.iter().filter(|(key, _)| key.0 >= recent && **key != own);
        let used_bytes = young.map(|(_, bytes)| bytes).sum::<u64>();
        let fits = used_bytes.saturating_add(record.bytes) <= self.limits.keep_bytes;
        if available == UndoQuota::Enforced && !fits {
            return Err(used_bytes);
        }
        index.insert(own, record.bytes);
        Ok(())
    }

    /// Adds a reserved state to the index and prunes the oldest states until all fit.
    fn admit(&self, folder: &StoreFolder, record: &UndoRecord) {
        let mut indexes = STATE_INDEXES.lock().unwrap_or_else(PoisonError::into_inner);
        let index = indexes.entry(self.path.clone()).or_insert_with(|| load(folder));
        index.insert((record.saved_ms, record.key()), record.bytes);
        self.prune(folder, index);
    }

    /// Prunes states that are too old, and the oldest until the rest fits, but none of the last day.
    fn prune(&self, folder: &StoreFolder, index: &mut StateIndex) {
        let (oldest_kept, recent) = (self.cutoff(self.limits.keep_for), self.cutoff(PROTECTED_AGE));
        let mut total: u64 = index.values().sum();
        while let Some(entry) = index.first_entry() {
            let saved = entry.key().0;
            let is_surplus = total > self.limits.keep_bytes && saved < recent;
            if saved >= oldest_kept && !is_surplus {
                break;
            }
            let ((_, key), bytes) = entry.remove_entry();
            folder.delete(&key);
            total = total.saturating_sub(bytes);
        }
    }

    /// Returns the current time minus `age`, in milliseconds.
    fn cutoff(&self, age: Duration) -> u64 {
        (self.now)().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// Removes a state from the index and the store.
    fn dismiss(&self, folder: &StoreFolder, record: &UndoRecord) {
        let mut indexes = STATE_INDEXES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = indexes.get_mut(&self.path) {
            index.remove(&(record.saved_ms, record.key()));
        }
        folder.delete(&record.key());
    }
}

/// Loads the index from the records on disk.
fn load(folder: &StoreFolder) -> StateIndex {
    let names = folder.names().unwrap_or_default();
    let records =
        names.iter().filter(|name| name.ends_with(".json")).filter_map(|name| folder.read(name).ok());
    records.map(|record| ((record.saved_ms, record.key()), record.bytes)).collect()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
