//! Maps the end of a call to the events that the mode rules count, for live calls and for calls restored from
//! the ledger.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;
use tool::caller::CallerKey;
use tool::{Failure, FailureKind, FaultParty, Refusal, RefusalCode, RiskLevel, ToolDefinition};

use super::event_counters::{CountedEvent, EffectId};
use crate::call::PipelineCall;
use crate::modes::ModeWatch;
use crate::suspension::EventSource;

/// Refused call, as the mode rules count it.
pub(crate) struct RefusedCall<'a> {
    pub(crate) code: RefusalCode,
    pub(crate) detail: Option<&'a str>,
    pub(crate) tool: &'a str,
    pub(crate) caller: &'a CallerKey,
    pub(crate) risk: RiskLevel,
    /// Effect that was denied.
    pub(crate) effect: EffectId,
}

impl RefusedCall<'_> {
    /// Events that this refusal counts as.
    pub(crate) fn events(&self) -> impl Iterator<Item = CountedEvent> {
        let violation = self.is_violation();
        let unapproved = self.code == RefusalCode::ApprovalTimedOut;
        let harmful = self.risk == RiskLevel::High && (violation || unapproved);
        let malformed =
            (self.code == RefusalCode::InvalidArguments).then(|| CountedEvent::Malformed(self.source()));
        [
            violation.then_some(CountedEvent::Violation(self.effect)),
            harmful.then_some(CountedEvent::RefusedHighRisk(self.effect)),
            malformed,
            self.is_exhaustion().then_some(CountedEvent::Exhaustion),
        ]
        .into_iter()
        .flatten()
    }

    /// Returns true if the policy or the operator refused the content of the call. Limits, malformed calls
    /// and missing approvals are not violations.
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

    /// Returns true if the machine ran out of a resource, as opposed to a fault of this call alone.
    fn is_exhaustion(&self) -> bool {
        let internal_details = ["internal_fault", "open_crashed", "path_unresponsive"];
        let of_machine = !self.detail.is_some_and(|detail| internal_details.contains(&detail));
        self.code == RefusalCode::LedgerUnavailable
            || (self.code == RefusalCode::ResourceExhausted && of_machine)
    }

    fn source(&self) -> u64 {
        hash(&(self.caller, self.tool))
    }
}

/// Identifies the effect that a refusal denied: the tool with the paths, commands and hosts in the facts of the
/// decision, or with the arguments if the call names none of these.
pub(crate) fn refused_effect(tool: &str, facts: &Value, arguments_digest: &str) -> EffectId {
    let list = |key: &str| facts.get(key).and_then(Value::as_array).into_iter().flatten();
    let path = |path: &Value| {
        let text = |key: &str| path.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text("canonical") {
            canonical if canonical.is_empty() => text("base") + "/" + &text("typed"),
            canonical => canonical,
        }
    };
    let targets: Vec<String> =
        list("paths").map(path).chain(list("commands").chain(list("hosts")).map(Value::to_string)).collect();
    match targets.is_empty() {
        true => hash(&(tool, arguments_digest)),
        false => hash(&(tool, targets)),
    }
}

/// Identifies the effect that was denied while the tool ran, such as a redirect, by the message that names it.
pub(crate) fn denied_effect(tool: &str, message: &str) -> EffectId {
    hash(&(tool, message))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Events that the failure of a started call counts as. `effect` identifies what a denial denied.
pub(crate) fn failure_events(kind: FailureKind, effect: EffectId) -> impl Iterator<Item = CountedEvent> {
    let end = match kind.fault() {
        FaultParty::Caller | FaultParty::Operator => CountedEvent::Ended,
        FaultParty::Tool | FaultParty::Network | FaultParty::Machine => CountedEvent::Failed,
    };
    let exhausted = (kind == FailureKind::ResourceExhausted).then_some(CountedEvent::Exhaustion);
    let violation = (kind == FailureKind::Denied).then_some(CountedEvent::Violation(effect));
    [Some(end), exhausted, violation].into_iter().flatten()
}

/// Events that the end of a started call counts as.
fn end_events<T>(
    tool: &str,
    end: &Result<T, Failure>,
    risk: RiskLevel,
) -> impl Iterator<Item = CountedEvent> {
    let high = (risk == RiskLevel::High).then_some(CountedEvent::HighRisk);
    let (done, failure) = match end {
        Ok(_) => (Some(CountedEvent::Ended), None),
        Err(failure) => (None, Some(failure_events(failure.kind, denied_effect(tool, &failure.message)))),
    };
    high.into_iter().chain(done).chain(failure.into_iter().flatten())
}

impl ModeWatch {
    /// Counts a refused call.
    pub(crate) fn count_refused(&self, call: &PipelineCall, refusal: &Refusal) {
        let refused = RefusedCall {
            code: refusal.code,
            detail: refusal.detail.as_deref(),
            tool: &refusal.tool,
            caller: &call.caller_key,
            risk: call.snapshot.risk_of(&refusal.tool),
            effect: refused_effect(
                &call.ledger_call(&refusal.tool).tool,
                call.denial_facts().unwrap_or(&Value::Null),
                &call.arguments_digest,
            ),
        };
        let source = EventSource::of(call.caller_key, &call.header.caller);
        refused.events().for_each(|event| self.count(event, source.clone()));
    }

    /// Counts a call that was started and has ended.
    pub(crate) fn count_ended<T>(
        &self,
        call: &PipelineCall,
        definition: &ToolDefinition,
        end: &Result<T, Failure>,
    ) {
        let risk = call.snapshot.policy.risk_level(definition);
        let source = EventSource::of(call.caller_key, &call.header.caller);
        end_events(definition.name().as_str(), end, risk).for_each(|event| self.count(event, source.clone()));
    }
}
