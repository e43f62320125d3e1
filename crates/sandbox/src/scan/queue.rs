//! Limits concurrent scans of the same folders, so that parallel calls together do not use the memory and
//! threads that only one of them may use.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::scan::cancellation::WorkDeadline;

/// Most concurrent scans of the same folders.
const MAX_CONCURRENT_SCANS: usize = 2;
/// Interval at which a waiting scan checks its deadline, because cancellation does not wake it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Scans of this process.
static SCAN_QUEUE: ScanQueue = ScanQueue { active: Mutex::new(Vec::new()), released: Condvar::new() };

struct ScanQueue {
    active: Mutex<Vec<Vec<PathBuf>>>,
    released: Condvar,
}

/// Slot for a scan of these folders, released when dropped.
#[derive(Debug)]
pub(crate) struct ScanSlot {
    folders: Vec<PathBuf>,
}

impl ScanSlot {
    /// Waits for a slot; `None` if the deadline passes first. Blocks.
    pub(crate) fn wait(mut folders: Vec<PathBuf>, until: &WorkDeadline) -> Option<ScanSlot> {
        folders.sort();
        let mut taken = lock();
        while taken.iter().filter(|others| **others == folders).count() >= MAX_CONCURRENT_SCANS {
            if until.is_over() {
                return None;
            }
            let waited = SCAN_QUEUE.released.wait_timeout(taken, POLL_INTERVAL);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        taken.push(folders.clone());
        Some(ScanSlot { folders })
    }
}

impl Drop for ScanSlot {
    fn drop(&mut self) {
        let mut taken = lock();
        if let Some(own) = taken.iter().position(|folders| *folders == self.folders) {
            taken.swap_remove(own);
        }
        SCAN_QUEUE.released.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Vec<Vec<PathBuf>>> {
    SCAN_QUEUE.active.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_scans_of_the_same_folders_are_limited() {
        let at = |folders: &[&str], time| {
            ScanSlot::wait(folders.iter().map(PathBuf::from).collect(), &WorkDeadline::after(time))
        };
        let long = Duration::from_secs(3600);
        let mut turns: Vec<_> =
            (0..MAX_CONCURRENT_SCANS).map(|_| at(&["/turns/a", "/turns/b"], long).unwrap()).collect();
        assert!(at(&["/turns/b", "/turns/a"], Duration::ZERO).is_none(), "in any order");
        assert!(at(&["/turns/a"], Duration::ZERO).is_some(), "other folders do not wait");
        let waits = std::thread::spawn(move || at(&["/turns/a", "/turns/b"], long).is_some());
        turns.pop();
        assert!(waits.join().unwrap());
    }
}
