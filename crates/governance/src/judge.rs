//! The judge: two pure, total functions. No I/O, no clock; what they need to know is handed in.
//!
//! [`clear`] looks at what can be said before anything is opened, [`judge`] at what was opened. The second says
//! everything the first says once more, so that neither a mode that changed in between nor a policy that was
//! exchanged can slip past it.

use guardrail::ValidCall;
use resources::Opened;
use tool::RuleRef;

use crate::cleared::Cleared;
use crate::facts::Seen;
use crate::grounds::Grounds;
use crate::path_rules;
use crate::policy::Policy;
use crate::situation::Situation;
use crate::standing::Standing;
use crate::verdict::{Denial, Permit, Question, Verdict};

/// Judges a call by its mode, category, rates and names as typed. Nothing has been opened, and nothing is opened
/// for a call that is denied here.
pub fn clear(policy: &Policy, situation: &Situation<'_>, call: ValidCall) -> Result<Cleared, Denial> {
    let definition = std::sync::Arc::clone(call.definition());
    let standing = Standing::of(policy, &definition);
    let mut passed = Vec::new();
    let cleared = standing.admit(situation, &mut passed).and_then(|()| {
        let requests = path_rules::requests(&standing, call.arguments(), situation.workspaces)?;
        requests
            .iter()
            .try_for_each(|request| path_rules::admit_typed(&standing, situation.workspaces, request))?;
        Ok(requests)
    });
    match cleared {
        Ok(requests) => Ok(Cleared::new(call, requests, standing.timeout())),
        Err(grounds) => Err(Denial::new(definition.name().as_str(), grounds, passed)),
    }
}

/// Judges a call by what its names lead to, and decides.
pub fn judge(policy: &Policy, situation: &Situation<'_>, opened: Opened<Cleared>) -> Verdict {
    let definition = std::sync::Arc::clone(opened.call().call().definition());
    let standing = Standing::of(policy, &definition);
    let mut passed = Vec::new();
    if let Err(grounds) = admit(&standing, situation, &opened, &mut passed) {
        return Verdict::Denial(Denial::new(definition.name().as_str(), grounds, passed));
    }
    let permit = Permit::new(opened, passed, standing.limits(situation.mode), Seen::by(policy, situation));
    // Last, so that a human is never asked about a call that would be denied anyway.
    match standing.approvals(situation.mode) {
        asked_by if asked_by.is_empty() => Verdict::Permit(permit),
        asked_by => Verdict::Question(Question::new(permit, asked_by)),
    }
}

fn admit(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    opened: &Opened<Cleared>,
    passed: &mut Vec<RuleRef>,
) -> Result<(), Grounds> {
    standing.admit(situation, passed)?;
    // `open` gives one path for each request, in their order.
    for (path, request) in opened.paths().iter().zip(opened.call().requests()) {
        path_rules::admit_opened(standing, situation, path, request, passed)?;
    }
    path_rules::refuse_large_content(standing, opened.call().call().arguments())
}

#[cfg(test)]
mod tests;
