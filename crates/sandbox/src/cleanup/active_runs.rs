//! Registry of active runs. A run that was alone the whole time knows that only a process outside can have
//! replaced a protected file; a run with concurrent ones does not. A daemon that stops waits here until the
//! cleanup of the last run is finished.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

/// Registry of the active runs of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Vec<Arc<AtomicBool>>>,
    left: Notify,
    closing: watch::Sender<bool>,
}

/// Entry of one run, until its cleanup is finished.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Places>,
    was_alone: Arc<AtomicBool>,
}

impl Places {
    /// Registers a run.
    pub(crate) fn take(self: &Arc<Self>) -> Place {
        let mut taken = self.lock();
        let was_alone = Arc::new(AtomicBool::new(taken.is_empty()));
        taken.iter().for_each(|other| other.store(false, Ordering::SeqCst));
        taken.push(Arc::clone(&was_alone));
        Place { of: Arc::clone(self), was_alone }
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
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            left.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<AtomicBool>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Returns true if no other run was active since this one was registered.
    pub(crate) fn was_alone(&self) -> bool {
        self.was_alone.load(Ordering::SeqCst)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.lock().retain(|other| !Arc::ptr_eq(other, &self.was_alone));
        self.of.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_runs_are_not_alone() {
        let places = Arc::new(Places::default());
        let first = places.take();
        assert!(first.was_alone());
        let second = places.take();
        assert!(!first.was_alone() && !second.was_alone());
        drop(first);
        assert!(!second.was_alone(), "another run was active for a while");
        drop(second);
        assert!(places.take().was_alone());
    }
}
