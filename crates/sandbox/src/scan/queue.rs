//! Limits concurrent scans of the same folders, so that parallel calls together do not use the memory and
//! threads that only one of them may use.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::scan::cancellation::Until;

/// Most concurrent scans of the same folders.
const AT_ONCE: usize = 2;
/// Interval at which a waiting scan checks its deadline, because cancellation does not wake it.
const ASKS_AFTER: Duration = Duration::from_millis(50);

/// Scans of this process.
static TURNS: Turns = Turns { taken: Mutex::new(Vec::new()), given_back: Condvar::new() };

struct Turns {
    taken: Mutex<Vec<Vec<PathBuf>>>,
    given_back: Condvar,
}

/// Slot for a scan of these folders, released when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    folders: Vec<PathBuf>,
}

impl Turn {
    /// Waits for a slot; `None` if the deadline passes first. Blocks.
    pub(crate) fn at(mut folders: Vec<PathBuf>, until: &Until) -> Option<Turn> {
        folders.sort();
        let mut taken = lock();
        while taken.iter().filter(|others| **others == folders).count() >= AT_ONCE {
            if until.is_over() {
                return None;
            }
            let waited = TURNS.given_back.wait_timeout(taken, ASKS_AFTER);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        taken.push(folders.clone());
        Some(Turn { folders })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut taken = lock();
        if let Some(own) = taken.iter().position(|folders| *folders == self.folders) {
            taken.swap_remove(own);
        }
        TURNS.given_back.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Vec<Vec<PathBuf>>> {
    TURNS.taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_scans_of_the_same_folders_are_limited() {
        let at = |folders: &[&str], time| {
            Turn::at(folders.iter().map(PathBuf::from).collect(), &Until::after(time))
        };
        let long = Duration::from_secs(3600);
        let mut turns: Vec<_> = (0..AT_ONCE).map(|_| at(&["/turns/a", "/turns/b"], long).unwrap()).collect();
        assert!(at(&["/turns/b", "/turns/a"], Duration::ZERO).is_none(), "in any order");
        assert!(at(&["/turns/a"], Duration::ZERO).is_some(), "other folders do not wait");
        let waits = std::thread::spawn(move || at(&["/turns/a", "/turns/b"], long).is_some());
        turns.pop();
        assert!(waits.join().unwrap());
    }
}
