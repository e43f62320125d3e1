//! Bounds of a directory scan. Other programs determine what the folders contain, so each bound is enforced
//! during the scan: entries, remembered names, and time.

use std::path::Path;
use std::time::Duration;

use crate::error::SandboxError;
use crate::scan::cancellation::Until;

/// Most entries before a run. A larger folder is refused instead of scanned in part, because entries that
/// were not seen would not be hidden.
pub(crate) const MOST_BEFORE: usize = 400_000;
/// Most entries after a run. Higher, because leftovers must be found even where the next run will be refused.
const MOST_AFTER: usize = 4_000_000;
/// Time limit of the scan after a run; what it has not reached by then is reported as unscanned. The scan is
/// not cancelled with its call, because leftovers affect other programs too.
const LONGEST_AFTER: Duration = Duration::from_secs(30);

/// Most paths that are hidden, protected or pinned, because each needs a mount.
pub(crate) const MOST_NAMES: usize = 20_000;
pub(crate) const MOST_NAME_BYTES: usize = 4 * 1024 * 1024;
/// Most quarantined files that are listed; further ones are quarantined and only logged.
const MOST_ASIDE: usize = 100_000;
const MOST_ASIDE_BYTES: usize = 32 * 1024 * 1024;
/// Most memory for the names of queued folders.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// Bounds of one scan.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) entries: usize,
    /// Most names that are remembered.
    pub(crate) names: usize,
    /// Total length of these names.
    pub(crate) name_bytes: usize,
    /// Memory of the queued folders.
    pub(crate) waiting: usize,
    pub(crate) until: Until,
}

impl Bounds {
    /// Bounds before a run, with the deadline of its call.
    pub(crate) fn before(until: Until) -> Bounds {
        Bounds {
            entries: MOST_BEFORE,
            names: MOST_NAMES,
            name_bytes: MOST_NAME_BYTES,
            waiting: MOST_WAITING,
            until,
        }
    }

    /// Bounds after a run.
    pub(crate) fn after() -> Bounds {
        Bounds {
            entries: MOST_AFTER,
            names: MOST_ASIDE,
            name_bytes: MOST_ASIDE_BYTES,
            waiting: MOST_WAITING,
            until: Until::after(LONGEST_AFTER),
        }
    }

    /// Returns true if this many names of this total length exceed the bounds.
    pub(crate) fn are_too_many(&self, names: usize, bytes: usize) -> bool {
        names > self.names || bytes > self.name_bytes
    }

    pub(crate) fn refuse_late(&self, folder: &Path) -> Result<(), SandboxError> {
        match self.until.is_over() {
            true => Err(SandboxError::OutOfTime(folder.to_owned())),
            false => Ok(()),
        }
    }
}
