//! The runs that are going on. A run that was alone the whole time knows that only somebody outside can have replaced what
//! its walls held; one that was not cannot tell. And a daemon that stops waits until the last of them is seen to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

/// Everybody's places.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<Vec<Arc<AtomicBool>>>,
    left: Notify,
    closing: watch::Sender<bool>,
}

/// The place of one run, until it is over and seen to.
#[derive(Debug)]
pub(crate) struct Place {
    of: Arc<Places>,
    was_alone: Arc<AtomicBool>,
}

impl Places {
    /// Takes one.
    pub(crate) fn take(self: &Arc<Self>) -> Place {
        let mut taken = self.lock();
        let was_alone = Arc::new(AtomicBool::new(taken.is_empty()));
        taken.iter().for_each(|other| other.store(false, Ordering::SeqCst));
        taken.push(Arc::clone(&was_alone));
        Place { of: Arc::clone(self), was_alone }
    }

    /// Waits until everybody is asked to leave.
    pub(crate) async fn closing(&self) {
        // Who asks is as old as who waits, so that the answer comes or is not waited for.
        let _ = self.closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }

    /// Asks everybody to leave, and waits until nobody has one.
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
    /// Whether nobody else had one since.
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
    fn who_was_ever_together_was_not_alone() {
        let places = Arc::new(Places::default());
        let first = places.take();
        assert!(first.was_alone());
        let second = places.take();
        assert!(!first.was_alone() && !second.was_alone());
        drop(first);
        assert!(!second.was_alone(), "it had company for a while");
        drop(second);
        assert!(places.take().was_alone());
    }
}
