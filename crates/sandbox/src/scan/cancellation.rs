//! Cancellation of blocking work on the disk. A blocked thread cannot be stopped from outside, so the work
//! checks a flag at every step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinError;

/// Flag that is set when the caller no longer waits for the work.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag {
    is_cancelled: Arc<AtomicBool>,
}

/// Cancels the work when the waiting future is dropped.
struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// Runs a closure on the blocking pool and cancels it when the returned future is dropped.
pub(crate) async fn run_cancellable<T: Send + 'static>(
    work: impl FnOnce(&CancelFlag) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let awaited = CancelFlag::default();
    let _waiting = CancelOnDrop(awaited.clone());
    tokio::task::spawn_blocking(move || work(&awaited)).await
}

/// Deadline of work that can also be cancelled.
#[derive(Clone, Debug)]
pub(crate) struct WorkDeadline {
    cancel_flag: CancelFlag,
    deadline: Instant,
}

impl WorkDeadline {
    /// Ends at cancellation or at the deadline.
    pub(crate) fn cancelled_or_at(awaited: &CancelFlag, deadline: Instant) -> WorkDeadline {
        WorkDeadline { cancel_flag: awaited.clone(), deadline }
    }

    /// Ends after this time, without cancellation.
    pub(crate) fn after(time: Duration) -> WorkDeadline {
        WorkDeadline { cancel_flag: CancelFlag::default(), deadline: Instant::now() + time }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.cancel_flag.is_cancelled.load(Ordering::Relaxed) || Instant::now() >= self.deadline
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
        let work = tokio::spawn(run_cancellable(move |awaited: &CancelFlag| {
            let until = WorkDeadline::cancelled_or_at(awaited, Instant::now() + Duration::from_secs(3600));
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
        assert!(WorkDeadline::after(Duration::ZERO).is_over());
        assert!(!WorkDeadline::after(Duration::from_secs(3600)).is_over());
    }
}
