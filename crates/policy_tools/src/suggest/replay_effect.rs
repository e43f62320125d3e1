//! Effect of a changed policy on the recorded calls, counted by replay.

use governance::Policy;
use governance::files::VerdictKind;
use governance::rule_trace::RuleTrace;
use serde::Serialize;

use super::tool_record::ToolRecord;
use super::{OperatorAnswer, SuggestContext};

/// Differences between the present policy and a changed one on the recorded calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayEffect {
    /// Calls that were judged again.
    pub calls: usize,
    /// Questions to the operator that would not be asked.
    pub questions_fewer: usize,
    /// Calls that need approval now without having asked a question, as under a standing rule, and that would
    /// need none.
    pub approvals_fewer: usize,
    /// Calls that would need approval and did not before.
    pub newly_asked: usize,
    /// Calls that would be refused and were not before.
    pub newly_refused: usize,
    /// Refused calls that would no longer be refused.
    pub newly_permitted: usize,
    /// Calls that the operator denied, that the present policy does not permit without approval, and that still
    /// cannot run without it.
    pub denied_stay_denied: usize,
    /// Such calls that would run without approval.
    pub denied_would_run: usize,
}

impl ReplayEffect {
    /// Judges the calls of a tool again. A change of one tool's entry affects no other tool.
    pub(super) fn of(candidate: &Policy, context: &SuggestContext<'_>, tool: &ToolRecord<'_>) -> Self {
        let mut effect = ReplayEffect::default();
        for judged in &tool.judged {
            let trace = RuleTrace::disabled();
            let then = candidate.replay_call(tool.definition, judged.facts, context.workspaces, trace);
            effect.add(judged.verdict, then.verdict, judged.call.answer);
        }
        effect
    }

    /// Counts one call by its verdict under the present policy and under the changed one.
    fn add(&mut self, now: VerdictKind, then: VerdictKind, answer: Option<OperatorAnswer>) {
        match (now, then) {
            (VerdictKind::Ask, VerdictKind::Allow) if answer.is_some() => self.questions_fewer += 1,
            (VerdictKind::Ask, VerdictKind::Allow) => self.approvals_fewer += 1,
            (VerdictKind::Allow, VerdictKind::Ask) => self.newly_asked += 1,
            (VerdictKind::Allow | VerdictKind::Ask, VerdictKind::Deny) => self.newly_refused += 1,
            (VerdictKind::Deny, VerdictKind::Allow | VerdictKind::Ask) => self.newly_permitted += 1,
            _ => {}
        }
        if answer == Some(OperatorAnswer::Denied) && now != VerdictKind::Allow {
            match then {
                VerdictKind::Allow => self.denied_would_run += 1,
                VerdictKind::Ask | VerdictKind::Deny => self.denied_stay_denied += 1,
            }
        }
    }

    /// Returns true if every recorded call would be decided as before.
    pub(super) fn changes_nothing(&self) -> bool {
        let ReplayEffect { newly_asked, newly_refused, newly_permitted, .. } = *self;
        self.questions_fewer + self.approvals_fewer + newly_asked + newly_refused + newly_permitted == 0
    }

    /// Returns true if fewer questions are the only difference, and none of them was answered with no.
    pub(super) fn only_asks_less(&self) -> bool {
        let quiet = ReplayEffect { questions_fewer: 0, approvals_fewer: 0, ..*self };
        self.questions_fewer > 0 && quiet.changes_nothing() && self.denied_would_run == 0
    }
}
