//! Cancellation of blocking work on the disk. A blocked thread cannot be stopped from outside, so the work
//! checks a flag at every step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinError;

/// Flag that is set when the caller no longer waits for the work.
#[derive(Clone, Debug, Default)]
pub struct Awaited {
    is_given_up: Arc<AtomicBool>,
}

/// Cancels the work when the waiting future is dropped.
struct Waiting(Awaited);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// Runs a closure on the blocking pool and cancels it when the returned future is dropped.
pub async fn while_awaited<T: Send + 'static>(
    work: impl FnOnce(&Awaited) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let awaited = Awaited::default();
    let _waiting = Waiting(awaited.clone());
    tokio::task::spawn_blocking(move || work(&awaited)).await
}

/// Deadline of work that can also be cancelled.
#[derive(Clone, Debug)]
pub(crate) struct Until {
    awaited: Awaited,
    deadline: Instant,
}

impl Until {
    /// Ends at cancellation or at the deadline.
    pub(crate) fn given_up_or(awaited: &Awaited, deadline: Instant) -> Until {
        Until { awaited: awaited.clone(), deadline }
    }

    /// Ends after this time, without cancellation.
    pub(crate) fn after(time: Duration) -> Until {
        Until { awaited: Awaited::default(), deadline: Instant::now() + time }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.awaited.is_given_up.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn dropped_future_cancels_its_work() {
        let (begins, begun) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let work = tokio::spawn(while_awaited(move |awaited: &Awaited| {
            let until = Until::given_up_or(awaited, Instant::now() + Duration::from_secs(3600));
            begins.send(until.is_over()).unwrap();
            while !until.is_over() {
                std::thread::yield_now();
            }
            ends.send(()).unwrap();
        }));
        let was_over = tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
        assert!(!was_over);
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        tokio::task::spawn_blocking(move || ended.recv().unwrap()).await.unwrap();
    }

    #[test]
    fn deadline_ends_work() {
        assert!(Until::after(Duration::ZERO).is_over());
        assert!(!Until::after(Duration::from_secs(3600)).is_over());
    }
}
