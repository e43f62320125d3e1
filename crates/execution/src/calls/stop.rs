//! The order to end one call, and who gave it.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;
use tool::{Failure, FailureKind, Mode, Refusal, RefusalCode};

use super::signal::Signal;

/// Who ends a call before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoppedBy {
    /// The mode that was entered forbids what runs.
    Mode,
    /// A human, by `sinew cancel`.
    Operator,
    /// The caller took it back.
    Caller,
    /// Its worker session was closed.
    Session,
}

/// One call's order to end: given once, and for good.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Fired when the caller takes the call back.
    withdrawn: CancellationToken,
    by: OnceLock<StoppedBy>,
    ordered: Signal,
}

impl Stop {
    /// An order that is given at the latest when the caller takes the call back.
    pub(crate) fn with(withdrawn: CancellationToken) -> Self {
        Stop { withdrawn, by: OnceLock::new(), ordered: Signal::default() }
    }

    /// Gives the order. The first who does is the one that is named.
    pub(crate) fn order(&self, by: StoppedBy) {
        if !self.withdrawn.is_cancelled() && self.by.set(by).is_ok() {
            self.ordered.give();
        }
    }

    /// Who gave it, once it is given. Nobody but the caller can give it without a name.
    pub(crate) fn by(&self) -> Option<StoppedBy> {
        let by_caller = || self.withdrawn.is_cancelled().then_some(StoppedBy::Caller);
        self.by.get().copied().or_else(by_caller)
    }

    /// Returns when it is given.
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

    /// The end of a call whose tool was running.
    pub(crate) fn failure(self, tool: &str, mode: Mode) -> Failure {
        let by = self.words(mode);
        let message = match self {
            StoppedBy::Mode => format!("{tool} was cancelled: {by}"),
            StoppedBy::Operator | StoppedBy::Caller | StoppedBy::Session => {
                format!("{tool} was cancelled {by}")
            }
        };
        Failure::new(FailureKind::Cancelled, message)
            .hint("its effect may have happened, or part of it: look before trying again")
    }

    /// The end of a call whose decision was on record, and whose tool was not started.
    pub(crate) fn not_started(self, tool: &str, mode: Mode) -> Failure {
        Failure { hint: None, ..self.failure(tool, mode) }.hint("nothing was run")
    }

    /// The end of a call that was not let run yet.
    pub(crate) fn refusal(self, tool: &str, mode: Mode) -> Box<Refusal> {
        let reason = format!("The call was cancelled {}", self.words(mode));
        Box::new(Refusal::new(tool, RefusalCode::Cancelled, reason).hint("nothing was run"))
    }
}
