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
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tool::CallId;

mod folder;
mod made;
mod ready;
mod record;
mod restore;
mod room;
mod saving;
mod settle;

use folder::Folder;

pub(crate) use made::Made;
pub(crate) use record::{Before, Held};
pub use restore::{Reversal, Reverted};
pub(crate) use saving::Pending;
use saving::Room;
pub use saving::Saving;
pub(crate) use saving::{Was, Weight};
pub use settle::Settled;

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

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
