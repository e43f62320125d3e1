//! What the end of a call means for the rules: told by whoever records the end, live or read back.

use std::hash::{DefaultHasher, Hash, Hasher};

use tool::{Failure, FailureKind, Fault, RefusalCode, RiskLevel};

use super::Counted;

/// A refusal, as the rules see it.
pub(crate) struct RefusedCall<'a> {
    pub(crate) code: RefusalCode,
    pub(crate) detail: Option<&'a str>,
    pub(crate) tool: &'a str,
    pub(crate) connection: u64,
    pub(crate) risk: RiskLevel,
}

impl RefusedCall<'_> {
    /// Everything it counts as.
    pub(crate) fn counted(&self) -> impl Iterator<Item = Counted> {
        let violation = self.is_violation();
        let unapproved = self.code == RefusalCode::ApprovalTimedOut;
        let harmful = self.risk == RiskLevel::High && (violation || unapproved);
        let malformed =
            (self.code == RefusalCode::InvalidArguments).then(|| Counted::Malformed(self.source()));
        [
            violation.then_some(Counted::Violation),
            harmful.then_some(Counted::RefusedHighRisk),
            malformed,
            self.is_exhaustion().then_some(Counted::Exhaustion),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether the policy or a human said no to what was asked. A limit, a mistake or an absence is not that.
    fn is_violation(&self) -> bool {
        match self.code {
            RefusalCode::NotInAllowlist
            | RefusalCode::ModeDenied
            | RefusalCode::ApprovalDenied
            | RefusalCode::PathForbidden
            | RefusalCode::PathNotAllowed
            | RefusalCode::CommandNotAllowed
            | RefusalCode::DomainNotAllowed
            | RefusalCode::ControlPlane => true,
            RefusalCode::ValidatorRejected => self.detail == Some("secret"),
            RefusalCode::UnknownTool
            | RefusalCode::InvalidArguments
            | RefusalCode::ApprovalTimedOut
            | RefusalCode::ApprovalPending
            | RefusalCode::RateLimited
            | RefusalCode::Busy
            | RefusalCode::TooLarge
            | RefusalCode::HopBudgetExhausted
            | RefusalCode::CostCapExceeded
            | RefusalCode::SandboxUnavailable
            | RefusalCode::LedgerUnavailable
            | RefusalCode::ResourceExhausted
            | RefusalCode::ShuttingDown
            | RefusalCode::Conflict
            | RefusalCode::Cancelled => false,
        }
    }

    /// Whether the machine had run out of something, and not only this call of luck.
    fn is_exhaustion(&self) -> bool {
        let ours = ["internal_fault", "open_crashed", "path_unresponsive"];
        let of_machine = !self.detail.is_some_and(|detail| ours.contains(&detail));
        self.code == RefusalCode::LedgerUnavailable
            || (self.code == RefusalCode::ResourceExhausted && of_machine)
    }

    fn source(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.connection, self.tool).hash(&mut hasher);
        hasher.finish()
    }
}

/// What the failure of a started call counts as.
pub(crate) fn failed(kind: FailureKind) -> impl Iterator<Item = Counted> {
    let end = match kind.fault() {
        Fault::Caller | Fault::Operator => Counted::Ended,
        Fault::Tool | Fault::Machine => Counted::Failed,
    };
    let exhausted = (kind == FailureKind::ResourceExhausted).then_some(Counted::Exhaustion);
    let closed = (kind == FailureKind::Denied).then_some(Counted::Violation);
    [Some(end), exhausted, closed].into_iter().flatten()
}

/// What the end of a started call counts as.
pub(crate) fn ended<T>(end: &Result<T, Failure>, risk: RiskLevel) -> impl Iterator<Item = Counted> {
    let high = (risk == RiskLevel::High).then_some(Counted::HighRisk);
    let (done, failure) = match end {
        Ok(_) => (Some(Counted::Ended), None),
        Err(failure) => (None, Some(failed(failure.kind))),
    };
    high.into_iter().chain(done).chain(failure.into_iter().flatten())
}
