//! Something that happens once in every call, and that few wait for: whoever waits pays for it, and no other.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Signal {
    given: AtomicBool,
    told: Notify,
}

impl Signal {
    /// It happens now, for good.
    pub(crate) fn give(&self) {
        self.given.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// Returns when it has happened.
    pub(crate) async fn given(&self) {
        // Made before the look, since it hears of all that is told from then on: nothing is missed in between.
        let told = self.told.notified();
        if !self.given.load(Ordering::Acquire) {
            told.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn everybody_hears_of_it_however_early_or_late_they_ask() {
        let signal = Signal::default();
        let (mut one, mut other) = (Box::pin(signal.given()), Box::pin(signal.given()));
        assert!((&mut one).now_or_never().is_none() && (&mut other).now_or_never().is_none(), "not yet");
        signal.give();
        assert!(one.now_or_never().is_some() && other.now_or_never().is_some());
        assert!(signal.given().now_or_never().is_some(), "and for good");
        signal.give();
        assert!(signal.given().now_or_never().is_some());
    }
}
