//! The judge: two pure, total functions. No I/O, no clock; what they need to know is handed in.
//!
//! [`clear`] looks at what can be said before anything is opened, [`judge`] at what was opened. The second says
//! everything the first says once more, so that neither a mode that changed in between nor a policy that was
//! exchanged can slip past it.

use std::sync::Arc;

use guardrail::ValidCall;
use resources::{Opened, PathRequest};
use tool::{Arguments, RuleRef};

use crate::cleared::Cleared;
use crate::facts::Seen;
use crate::grounds::Grounds;
use crate::path_rules;
use crate::policy::Policy;
use crate::reached::Reached;
use crate::situation::Situation;
use crate::standing::Standing;
use crate::trail::{Notes, Trail};
use crate::verdict::{Denial, Permit, Question, Verdict};

/// Judges a call by its mode, category, rates and names as typed. Nothing has been opened, and nothing is opened
/// for a call that is denied here.
pub fn clear(policy: &Policy, situation: &Situation<'_>, call: ValidCall) -> Result<Cleared, Denial> {
    clear_traced(policy, situation, call, &mut Trail::off())
}

/// The same, with every rule that was looked at written down.
pub fn clear_traced(
    policy: &Policy,
    situation: &Situation<'_>,
    call: ValidCall,
    trail: &mut Trail,
) -> Result<Cleared, Denial> {
    let definition = Arc::clone(call.definition());
    let standing = Standing::of(policy, &definition);
    let mut notes = Notes::on(trail);
    match admit_typed(&standing, situation, call.arguments(), &mut notes) {
        Ok(requests) => Ok(Cleared::new(call, requests, standing.timeout())),
        Err(grounds) => Err(denial(&standing, grounds, notes)),
    }
}

/// Judges a call by what its names lead to, and decides.
pub fn judge(policy: &Policy, situation: &Situation<'_>, opened: Opened<Cleared>) -> Verdict {
    judge_traced(policy, situation, opened, &mut Trail::off())
}

/// The same, with every rule that was looked at written down.
pub fn judge_traced(
    policy: &Policy,
    situation: &Situation<'_>,
    opened: Opened<Cleared>,
    trail: &mut Trail,
) -> Verdict {
    let definition = Arc::clone(opened.call().call().definition());
    let standing = Standing::of(policy, &definition);
    let reached: Vec<Reached> = opened.paths().iter().map(Reached::of).collect();
    let arguments = opened.call().call().arguments();
    let content_bytes = path_rules::content_bytes(arguments);
    let facts = Facts { requests: opened.call().requests(), reached: &reached, content_bytes };
    let mut notes = Notes::on(trail);
    match decide(&standing, situation, &facts, &mut notes) {
        Err(grounds) => Verdict::Denial(denial(&standing, grounds, notes)),
        Ok(asked_by) => {
            let limits = standing.limits(situation.mode);
            let permit = Permit::new(opened, notes.passed, limits, Seen::by(policy, situation));
            match asked_by.is_empty() {
                true => Verdict::Permit(permit),
                false => Verdict::Question(Question::new(permit, asked_by)),
            }
        }
    }
}

/// What the judge is told of a call besides its tool.
pub(crate) struct Facts<'a> {
    /// The paths it names.
    pub(crate) requests: &'a [PathRequest],
    /// What each of them reached, in the same order.
    pub(crate) reached: &'a [Reached],
    /// The bytes it brings with it.
    pub(crate) content_bytes: Option<u64>,
}

/// What can be said before anything is opened; the paths to open.
pub(crate) fn admit_typed(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    arguments: &Arguments,
    notes: &mut Notes<'_>,
) -> Result<Vec<PathRequest>, Grounds> {
    standing.admit(situation, notes)?;
    let requests = path_rules::requests(standing, arguments, situation.workspaces)?;
    for request in &requests {
        path_rules::admit_typed(standing, situation.workspaces, request, notes)?;
    }
    Ok(requests)
}

/// The whole judgement, on facts alone. Gives the rules that ask for a human; none means that it may run.
pub(crate) fn decide(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    facts: &Facts<'_>,
    notes: &mut Notes<'_>,
) -> Result<Vec<RuleRef>, Grounds> {
    standing.admit(situation, notes)?;
    for (reached, request) in facts.reached.iter().zip(facts.requests) {
        path_rules::admit_reached(standing, situation, reached, request, notes)?;
    }
    path_rules::refuse_large_content(standing, facts.content_bytes, notes)?;
    // Last, so that a human is never asked about a call that would be denied anyway.
    Ok(standing.approvals(situation.mode, notes))
}

fn denial(standing: &Standing<'_>, grounds: Grounds, mut notes: Notes<'_>) -> Denial {
    let tool = standing.definition.name().as_str();
    notes.denied(tool, &grounds);
    Denial::new(tool, grounds, notes.passed)
}

#[cfg(test)]
mod tests;
