//! Request to stop one call, and its originator.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;
use tool::{Failure, FailureKind, Mode, Refusal, RefusalCode};

use super::signal::Signal;

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
}

/// Stop request of one call. It can be made once and cannot be withdrawn.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Cancelled when the caller cancels the call.
    withdrawn: CancellationToken,
    by: OnceLock<StoppedBy>,
    ordered: Signal,
}

impl Stop {
    /// Creates a stop request that is also made when `cancellation` is cancelled.
    pub(crate) fn with(withdrawn: CancellationToken) -> Self {
        Stop { withdrawn, by: OnceLock::new(), ordered: Signal::default() }
    }

    /// Requests the stop. Only the first originator is kept.
    pub(crate) fn order(&self, by: StoppedBy) {
        if !self.withdrawn.is_cancelled() && self.by.set(by).is_ok() {
            self.ordered.give();
        }
    }

    /// Originator of the stop, once it is requested. A stop without a stored originator comes from the
    /// caller's cancellation token.
    pub(crate) fn by(&self) -> Option<StoppedBy> {
        let by_caller = || self.withdrawn.is_cancelled().then_some(StoppedBy::Caller);
        self.by.get().copied().or_else(by_caller)
    }

    /// Returns when the stop is requested.
    pub(crate) async fn given(&self) -> StoppedBy {
        tokio::select! {
            () = self.withdrawn.cancelled() => {}
            () = self.ordered.given() => {}
        }
        self.by().unwrap_or(StoppedBy::Caller)
    }
}

impl StoppedBy {
    fn words(self, mode: Mode) -> String {
        match self {
            StoppedBy::Mode => format!("{mode} was entered while it ran, and does not allow it"),
            StoppedBy::Operator => "by the operator".to_owned(),
            StoppedBy::Caller => "by its caller".to_owned(),
            StoppedBy::Session => "with its session".to_owned(),
        }
    }

    /// Failure of a call whose tool was running.
    pub(crate) fn failure(self, tool: &str, mode: Mode) -> Failure {
        let by = self.words(mode);
        let message = match self {
            StoppedBy::Mode => format!("{tool} was cancelled: {by}"),
            StoppedBy::Operator | StoppedBy::Caller | StoppedBy::Session => {
                format!("{tool} was cancelled {by}")
            }
        };
        Failure::new(FailureKind::Cancelled, message)
            .hint("all or part of its effect may have happened: check before trying again")
    }

    /// Failure of a call whose decision was recorded and whose tool was not started.
    pub(crate) fn not_started(self, tool: &str, mode: Mode) -> Failure {
        Failure { hint: None, ..self.failure(tool, mode) }.hint("nothing was run")
    }

    /// Refusal of a call that was not permitted yet.
    pub(crate) fn refusal(self, tool: &str, mode: Mode) -> Box<Refusal> {
        let reason = format!("The call was cancelled {}", self.words(mode));
        Box::new(Refusal::new(tool, RefusalCode::Cancelled, reason).hint("nothing was run"))
    }
}
