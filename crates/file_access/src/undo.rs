//! Undo store: the state before each change of a call, so that the change can be undone.
//!
//! Nothing is replaced or removed through a handle without a `ChangeRecorder`, which only a store creates. It
//! saves the previous state to the disk before the change begins. The same record is the journal of the
//! change: after a crash it tells which temporary name was left where and whether the change happened.
//! `UndoStore::recover` uses it at the next start.
//!
//! This module does not decide who may undo a change.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tool::CallId;

mod folder;
mod made;
mod ready;
mod record;
mod restore;
mod saving;
mod settle;

use folder::Folder;
use record::Record;

pub(crate) use made::Made;
pub(crate) use record::{Before, Held};
pub use restore::{Reversal, Reverted};
pub(crate) use saving::Pending;
use saving::Room;
pub use saving::Saving;
pub(crate) use saving::{Was, Weight};
pub use settle::Settled;

/// Age up to which a state is not pruned for space. The operator has a day to review changes.
const YOUNG: Duration = Duration::from_secs(24 * 60 * 60);

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
type Index = BTreeMap<(u64, String), u64>;

/// Index of each store folder, oldest state first, loaded on first use. It is shared because a reload creates
/// a second store of the same folder.
static KEPT: LazyLock<Mutex<HashMap<PathBuf, Index>>> = LazyLock::new(Default::default);

impl UndoStore {
    /// Creates the store for this folder. The folder is created when it is first needed.
    pub fn at(path: &Path, limits: UndoLimits) -> Arc<Self> {
        Arc::new(UndoStore { path: path.to_owned(), limits, now: now_ms })
    }

    /// Returns the recorder with which a call makes changes.
    pub fn for_call(self: &Arc<Self>, call: CallId) -> Saving {
        Saving::new(Arc::clone(self), call, Room::Bounded)
    }

    /// Returns the recorder with which an undo makes changes. It ignores the quota: the operator undoes
    /// changes rarely, and a full store must not prevent an undo.
    pub fn for_undo(self: &Arc<Self>, call: CallId) -> Saving {
        Saving::new(Arc::clone(self), call, Room::Unbounded)
    }

    fn folder(&self) -> std::io::Result<Folder> {
        Folder::open(&self.path)
    }
}

/// Quota: states that are too old are pruned, and the oldest ones if the total is too large. States of the last
/// day are never pruned for space. Otherwise a caller could make a change final by filling the store.
impl UndoStore {
    /// Reserves space for a state, next to the states that may not be pruned. Returns the size of those if it
    /// does not fit.
    fn reserve(&self, folder: &Folder, record: &Record, room: Room) -> Result<(), u64> {
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
    fn admit(&self, folder: &Folder, record: &Record) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let index = kept.entry(self.path.clone()).or_insert_with(|| load(folder));
        index.insert((record.saved_ms, record.key()), record.bytes);
        self.prune(folder, index);
    }

    /// Prunes states that are too old, and the oldest until the rest fits, but none of the last day.
    fn prune(&self, folder: &Folder, index: &mut Index) {
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
    fn dismiss(&self, folder: &Folder, record: &Record) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = kept.get_mut(&self.path) {
            index.remove(&(record.saved_ms, record.key()));
        }
        folder.forget(&record.key());
    }
}

/// Loads the index from the records on disk.
fn load(folder: &Folder) -> Index {
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
