//! Latch: a condition that becomes true once and wakes all waiters. Every call has several latches and few
//! are ever awaited, so the cost is on the side of the waiter.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Latch {
    is_set: AtomicBool,
    notify: Notify,
}

impl Latch {
    /// Sets the latch for good and wakes all waiters.
    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Returns when the latch is set.
    pub(crate) async fn wait(&self) {
        // Created before the load: `Notified` receives every notification from its creation on, so none is
        // missed between the load and the await.
        let reported = self.notify.notified();
        if !self.is_set.load(Ordering::Acquire) {
            reported.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn latch_wakes_early_and_late_waiters() {
        let signal = Latch::default();
        let (mut one, mut other) = (Box::pin(signal.wait()), Box::pin(signal.wait()));
        assert!((&mut one).now_or_never().is_none() && (&mut other).now_or_never().is_none(), "not yet");
        signal.set();
        assert!(one.now_or_never().is_some() && other.now_or_never().is_some());
        assert!(signal.wait().now_or_never().is_some(), "and for good");
        signal.set();
        assert!(signal.wait().now_or_never().is_some());
    }
}
