//! What a call changed, kept so that it can be taken back.
//!
//! Nothing is replaced or removed through a handle without a [`Saving`], and only a store makes one: the state before is
//! on the disk before the change begins. The same record is the journal of the change. After a crash it tells which
//! temporary name was left where, and whether the change took place; [`UndoStore::settle`] acts on it at the next start.
//!
//! Who may take a change back is not decided here.

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

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoLimits {
    /// The oldest states go when all together are larger, but none of the last day: what there is no room for beside those
    /// is not changed at all. 0 keeps nothing.
    pub keep_bytes: u64,
    /// States go when they are older.
    pub keep_for: Duration,
}

/// States before changes, in a private folder. One process at a time uses it.
#[derive(Debug)]
pub struct UndoStore {
    path: PathBuf,
    limits: UndoLimits,
    /// In milliseconds since 1970.
    now: fn() -> u64,
}

/// The size of each state by its age in milliseconds since 1970 and its name.
type Index = BTreeMap<(u64, String), u64>;

/// What is kept in each folder, oldest first, once somebody looked: a reload makes a second store of the same folder.
static KEPT: LazyLock<Mutex<HashMap<PathBuf, Index>>> = LazyLock::new(Default::default);

impl UndoStore {
    /// The store in this folder, which is made when it is first needed.
    pub fn at(path: &Path, limits: UndoLimits) -> Arc<Self> {
        Arc::new(UndoStore { path: path.to_owned(), limits, now: now_ms })
    }

    /// What a call is handed to make changes with.
    pub fn for_call(self: &Arc<Self>, call: CallId) -> Saving {
        Saving::new(Arc::clone(self), call, Room::Bounded)
    }

    /// The same for whoever takes a change back. A human does, and not so often that it needs a bound: a full store is no
    /// reason to leave things as they are.
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
