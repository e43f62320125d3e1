//! Work on the disk that goes on only as long as somebody waits for it. A thread that blocks cannot be ended from outside, so
//! it is told, and asks at every step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinError;

/// Whether somebody still waits.
#[derive(Clone, Debug, Default)]
pub struct Awaited {
    is_given_up: Arc<AtomicBool>,
}

/// Gives the work up when who waits for it goes.
struct Waiting(Awaited);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
    }
}

/// Does this on a thread that may block, and tells it when nobody waits for it any more.
pub async fn while_awaited<T: Send + 'static>(
    work: impl FnOnce(&Awaited) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let awaited = Awaited::default();
    let _waiting = Waiting(awaited.clone());
    tokio::task::spawn_blocking(move || work(&awaited)).await
}

/// Until when something is worth doing.
#[derive(Clone, Debug)]
pub(crate) struct Until {
    awaited: Awaited,
    deadline: Instant,
}

impl Until {
    /// As long as somebody waits, and no longer than this.
    pub(crate) fn given_up_or(awaited: &Awaited, deadline: Instant) -> Until {
        Until { awaited: awaited.clone(), deadline }
    }

    /// For so long, whoever waits.
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
    async fn work_that_nobody_waits_for_any_more_is_told() {
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
    fn its_time_ends_it_as_well() {
        assert!(Until::after(Duration::ZERO).is_over());
        assert!(!Until::after(Duration::from_secs(3600)).is_over());
    }
}
