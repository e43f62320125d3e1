//! The judge: two pure, total functions. No I/O and no clock; all input is passed in.
//!
//! `precheck` decides before anything is opened, `judge` on what was opened. `judge` repeats the checks of
//! `precheck` on the call and on every name in it, so that a change of mode or policy in between takes
//! effect.

use std::sync::Arc;

use file_access::{Opened, PathRequest};
use guardrail::ValidCall;
use tool::{Arguments, RuleRef};

use crate::cleared::Cleared;
use crate::errands::Errands;
use crate::facts::Seen;
use crate::grounds::Grounds;
use crate::path_rules;
use crate::policy::Policy;
use crate::reached::Reached;
use crate::situation::Situation;
use crate::standing::Standing;
use crate::trail::{Notes, Trail};
use crate::verdict::{Denial, Permit, Question, Verdict};

/// Checks a call by its mode, category, rate limits and names as typed, before any of its paths is opened.
///
/// No path is opened for a call that is denied here.
pub fn clear(policy: &Policy, situation: &Situation<'_>, call: ValidCall) -> Result<Cleared, Denial> {
    clear_traced(policy, situation, call, &mut Trail::off())
}

/// Like `precheck`, and records every rule it evaluates in `trace`.
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
        Ok(named) => Ok(Cleared::new(call, named, standing.guard(situation), standing.timeout())),
        Err(grounds) => {
            let seen = Seen::by(policy, situation, None);
            let facts = seen.unopened(&definition, call.arguments(), situation.workspaces);
            Err(denial(&standing, grounds, notes).seeing(seen.for_denial(facts)))
        }
    }
}

/// Judges a call by the objects that its names lead to, and returns the verdict.
pub fn judge(policy: &Policy, situation: &Situation<'_>, opened: Opened<Cleared>) -> Verdict {
    judge_traced(policy, situation, opened, &mut Trail::off())
}

/// Like `judge`, and records every rule it evaluates in `trace`.
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
    let named = opened.call().named();
    let facts = Facts {
        requests: &named.requests,
        reached: &reached,
        errands: &named.errands,
        content_bytes: path_rules::content_bytes(arguments),
    };
    let mut notes = Notes::on(trail);
    match decide(&standing, situation, &facts, &mut notes) {
        Err(grounds) => {
            let seen = Seen::by(policy, situation, None);
            let facts = seen.for_denial(seen.with(&opened));
            Verdict::Denial(denial(&standing, grounds, notes).seeing(facts))
        }
        Ok(Decision { asked_by, would_deny }) => {
            let tool = definition.name().as_str();
            let would_deny = would_deny.map(|grounds| grounds.into_refusal(tool));
            let seen = Seen::by(policy, situation, would_deny);
            let permit = Permit::new(opened, notes.passed, standing.limits(situation), seen);
            match asked_by.is_empty() {
                true => Verdict::Permit(permit),
                false => Verdict::Question(Question::new(permit, asked_by)),
            }
        }
    }
}

/// Facts about a call that the judge decides on, besides its tool.
pub(crate) struct Facts<'a> {
    /// Paths that the call names.
    pub(crate) requests: &'a [PathRequest],
    /// Objects that the paths lead to, in the same order.
    pub(crate) reached: &'a [Reached],
    /// Programs and hosts that the call names.
    pub(crate) errands: &'a Errands,
    /// Size of the content in the arguments.
    pub(crate) content_bytes: Option<u64>,
}

/// Paths, programs and hosts that a call names, read from its arguments alone.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) requests: Vec<PathRequest>,
    pub(crate) errands: Errands,
}

/// Decision on a call that no rule denies.
#[derive(Debug)]
pub(crate) struct Decision {
    /// Rules that require approval; empty if the call may run without it.
    pub(crate) asked_by: Vec<RuleRef>,
    /// Reason for which the tool's rules would deny the call if they were not in shadow mode.
    pub(crate) would_deny: Option<Grounds>,
}

/// Runs every check that needs no opened path, and returns what the call names.
pub(crate) fn admit_typed(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    arguments: &Arguments,
    notes: &mut Notes<'_>,
) -> Result<Named, Grounds> {
    standing.admit(situation, notes)?;
    let errands = Errands::of(standing.definition, arguments);
    standing.admit_outward(&errands, notes)?;
    let requests = path_rules::requests(standing, arguments, situation.workspaces)?;
    for request in &requests {
        path_rules::admit_typed(standing, situation.workspaces, request, notes)?;
    }
    Ok(Named { requests, errands })
}

/// Decides on a call from facts alone.
pub(crate) fn decide(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    facts: &Facts<'_>,
    notes: &mut Notes<'_>,
) -> Result<Decision, Grounds> {
    let mut unread = Trail::off();
    let in_earnest = standing.in_earnest();
    let would_deny = in_earnest.and_then(|s| admit(&s, situation, facts, &mut Notes::on(&mut unread)).err());
    would_deny.iter().for_each(|grounds| notes.would_deny(grounds));
    admit(standing, situation, facts, notes)?;
    // Last, so that no approval is requested for a call that would be denied anyway.
    let attendance = standing.attendance(facts.reached, notes);
    Ok(Decision { asked_by: standing.approvals(situation.mode, attendance, notes), would_deny })
}

fn admit(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    facts: &Facts<'_>,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    standing.admit(situation, notes)?;
    for (reached, request) in facts.reached.iter().zip(facts.requests) {
        path_rules::refuse_typed(standing, request, notes)?;
        path_rules::admit_reached(standing, situation, reached, request, notes)?;
    }
    standing.admit_outward(facts.errands, notes)?;
    path_rules::refuse_large_content(standing, facts.content_bytes, notes)
}

fn denial(standing: &Standing<'_>, grounds: Grounds, mut notes: Notes<'_>) -> Denial {
    notes.denied(standing.definition, &grounds);
    Denial::new(standing.definition.name().as_str(), grounds, notes.passed)
}

#[cfg(test)]
pub(crate) mod tests;
