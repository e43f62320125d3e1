//! Registry of active runs. A run that was alone the whole time knows that only a process outside can have
//! replaced a protected file; a run with concurrent ones does not. A daemon that stops waits here until the
//! cleanup of the last run is finished.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

/// Registry of the active runs of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct ActiveRuns {
    active: Mutex<Vec<Arc<AtomicBool>>>,
    released: Notify,
    closing: watch::Sender<bool>,
}

/// Entry of one run, until its cleanup is finished.
#[derive(Debug)]
pub(crate) struct ActiveRun {
    registry: Arc<ActiveRuns>,
    ran_alone: Arc<AtomicBool>,
}

impl ActiveRuns {
    /// Registers a run.
    pub(crate) fn register(self: &Arc<Self>) -> ActiveRun {
        let mut taken = self.lock();
        let ran_alone = Arc::new(AtomicBool::new(taken.is_empty()));
        taken.iter().for_each(|other| other.store(false, Ordering::SeqCst));
        taken.push(Arc::clone(&ran_alone));
        ActiveRun { registry: Arc::clone(self), ran_alone }
    }

    /// Waits until `close` is called.
    pub(crate) async fn closing(&self) {
        // The sender is a field of the same object, so it cannot be dropped during the wait.
        let _ = self.closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }

    /// Asks all runs to end and waits until none is left.
    pub(crate) async fn close(&self) {
        self.closing.send_replace(true);
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            released.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<AtomicBool>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveRun {
    /// Returns true if no other run was active since this one was registered.
    pub(crate) fn ran_alone(&self) -> bool {
        self.ran_alone.load(Ordering::SeqCst)
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        self.registry.lock().retain(|other| !Arc::ptr_eq(other, &self.ran_alone));
        self.registry.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_runs_are_not_alone() {
        let places = Arc::new(ActiveRuns::default());
        let first = places.register();
        assert!(first.ran_alone());
        let second = places.register();
        assert!(!first.ran_alone() && !second.ran_alone());
        drop(first);
        assert!(!second.ran_alone(), "another run was active for a while");
        drop(second);
        assert!(places.register().ran_alone());
    }
}
