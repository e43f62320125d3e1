//! Request to stop one call, its originator, and the latch that it sets.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tool::{Failure, FailureKind, Mode, Refusal, RefusalCode};

/// Originator of a stop request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoppedBy {
    /// The new mode forbids the running tool.
    Mode,
    /// The operator, with `sinew cancel`.
    Operator,
    /// The caller cancelled the call.
    Caller,
    /// The worker session of the call was closed.
    Session,
    /// The connection of the caller was lost.
    LostConnection,
}

/// Stop request of one call. It can be made once and cannot be withdrawn.
#[derive(Debug)]
pub(crate) struct StopRequest {
    /// Cancelled when the caller cancels the call.
    cancellation: CancellationToken,
    by: OnceLock<StoppedBy>,
    requested: Latch,
}

impl StopRequest {
    /// Creates a stop request that is also made when `cancellation` is cancelled.
    pub(crate) fn new(withdrawn: CancellationToken) -> Self {
        StopRequest { cancellation: withdrawn, by: OnceLock::new(), requested: Latch::default() }
    }

    /// Requests the stop. Only the first originator is stored.
    pub(crate) fn request(&self, by: StoppedBy) {
        if !self.cancellation.is_cancelled() && self.by.set(by).is_ok() {
            self.requested.set();
        }
    }

    /// Originator of the stop, once it is requested. A stop without a stored originator comes from the
    /// caller's cancellation token.
    pub(crate) fn requested_by(&self) -> Option<StoppedBy> {
        let by_caller = || self.cancellation.is_cancelled().then_some(StoppedBy::Caller);
        self.by.get().copied().or_else(by_caller)
    }

    /// Waits for the stop request, and returns its originator.
    pub(crate) async fn wait(&self) -> StoppedBy {
        tokio::select! {
            () = self.cancellation.cancelled() => {}
            () = self.requested.wait() => {}
        }
        self.requested_by().unwrap_or(StoppedBy::Caller)
    }
}

impl StoppedBy {
    fn describe(self, mode: Mode) -> String {
        match self {
            StoppedBy::Mode => format!("because the mode changed to {mode}, which does not allow it"),
            StoppedBy::Operator => "by the operator".to_owned(),
            StoppedBy::Caller => "by its caller".to_owned(),
            StoppedBy::Session => "because its session was closed".to_owned(),
            StoppedBy::LostConnection => "because its client disconnected".to_owned(),
        }
    }

    /// Failure of a call whose tool was running.
    pub(crate) fn failure(self, tool: &str, mode: Mode) -> Failure {
        let message = format!("{tool} was cancelled {}", self.describe(mode));
        let kind = match self {
            StoppedBy::LostConnection => FailureKind::ClientGone,
            StoppedBy::Mode | StoppedBy::Operator | StoppedBy::Caller | StoppedBy::Session => {
                FailureKind::Cancelled
            }
        };
        Failure::new(kind, message)
            .with_hint("the call may have taken effect partly or completely; check before you retry it")
    }

    /// Failure of a call whose decision was recorded and whose tool was not started.
    pub(crate) fn not_started(self, tool: &str, mode: Mode) -> Failure {
        Failure { hint: None, ..self.failure(tool, mode) }.with_hint("nothing was run")
    }

    /// Refusal of a call that was not permitted yet.
    pub(crate) fn refusal(self, tool: &str, mode: Mode) -> Box<Refusal> {
        let reason = format!("The call was cancelled {}", self.describe(mode));
        let refusal = Refusal::new(tool, RefusalCode::Cancelled, reason).with_hint("nothing was run");
        Box::new(match self {
            StoppedBy::LostConnection => refusal.with_detail(FailureKind::ClientGone.as_str()),
            StoppedBy::Mode | StoppedBy::Operator | StoppedBy::Caller | StoppedBy::Session => refusal,
        })
    }
}

/// Condition that becomes true once and wakes all waiters. Every call has several latches and few are ever
/// awaited, so the cost is on the side of the waiter.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    is_set: AtomicBool,
    notify: Notify,
}

impl Latch {
    /// Sets the latch permanently and wakes all waiters.
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
