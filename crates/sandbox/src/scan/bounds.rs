//! Bounds of a directory scan. Other programs determine what the folders contain, so each bound is enforced
//! during the scan: entries, remembered names, and time.

use std::path::Path;
use std::time::Duration;

use crate::error::SandboxError;
use crate::scan::cancellation::WorkDeadline;

/// Most entries before a run. A larger folder is refused instead of scanned in part, because entries that
/// were not seen would not be hidden.
pub(crate) const MAX_ENTRIES_BEFORE_RUN: usize = 400_000;
/// Most entries after a run. Higher, because leftovers must be found even where the next run will be refused.
const MAX_ENTRIES_AFTER_RUN: usize = 4_000_000;
/// Time limit of the scan after a run; what it has not reached by then is reported as unscanned. The scan is
/// not cancelled with its call, because leftovers affect other programs too.
const SCAN_TIME_AFTER_RUN: Duration = Duration::from_secs(30);

/// Most paths that are hidden, protected or pinned, because each needs a mount.
pub(crate) const MAX_MOUNTED_PATHS: usize = 20_000;
pub(crate) const MAX_MOUNTED_PATH_BYTES: usize = 4 * 1024 * 1024;
/// Most quarantined files that are listed; further ones are quarantined and only logged.
const MAX_LISTED_QUARANTINED: usize = 100_000;
const MAX_LISTED_QUARANTINED_BYTES: usize = 32 * 1024 * 1024;
/// Most memory for the names of queued folders.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Bounds of one scan.
#[derive(Clone, Debug)]
pub(crate) struct ScanBounds {
    pub(crate) entries: usize,
    /// Most names that are remembered.
    pub(crate) names: usize,
    /// Total length of these names.
    pub(crate) name_bytes: usize,
    /// Memory of the queued folders.
    pub(crate) queued_bytes: usize,
    pub(crate) deadline: WorkDeadline,
}

impl ScanBounds {
    /// Bounds before a run, with the deadline of its call.
    pub(crate) fn before_run(until: WorkDeadline) -> ScanBounds {
        ScanBounds {
            entries: MAX_ENTRIES_BEFORE_RUN,
            names: MAX_MOUNTED_PATHS,
            name_bytes: MAX_MOUNTED_PATH_BYTES,
            queued_bytes: MAX_QUEUED_BYTES,
            deadline: until,
        }
    }

    /// Bounds after a run.
    pub(crate) fn after_run() -> ScanBounds {
        ScanBounds {
            entries: MAX_ENTRIES_AFTER_RUN,
            names: MAX_LISTED_QUARANTINED,
            name_bytes: MAX_LISTED_QUARANTINED_BYTES,
            queued_bytes: MAX_QUEUED_BYTES,
            deadline: WorkDeadline::after(SCAN_TIME_AFTER_RUN),
        }
    }

    /// Returns true if this many names of this total length exceed the bounds.
    pub(crate) fn is_exceeded_by(&self, names: usize, bytes: usize) -> bool {
        names > self.names || bytes > self.name_bytes
    }

    pub(crate) fn check_deadline(&self, folder: &Path) -> Result<(), SandboxError> {
        match self.deadline.is_over() {
            true => Err(SandboxError::ScanTimedOut(folder.to_owned())),
            false => Ok(()),
        }
    }
}
