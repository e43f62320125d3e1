//! The judge: two pure, total functions. No I/O, no clock; what they need to know is handed in.
//!
//! [`clear`] looks at what can be said before anything is opened, [`judge`] at what was opened. The second says
//! what the first says of the call and of every name in it once more, so that neither a mode that changed in between nor a policy
//! that was exchanged can slip past it. Only what the very same lists said of the very same names is not asked again.

use std::sync::Arc;

use guardrail::ValidCall;
use resources::{Opened, PathRequest};
use tool::{Arguments, RuleRef};

use crate::cleared::Cleared;
use crate::errands::Errands;
use crate::facts::Seen;
use crate::grounds::Grounds;
use crate::held_against::HeldAgainst;
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
        Ok(named) => Ok(Cleared::new(call, named, standing.guard(situation), standing.timeout())),
        Err(grounds) => {
            let seen = Seen::by(policy, situation, None);
            let facts = seen.unopened(&definition, call.arguments(), situation.workspaces);
            Err(denial(&standing, grounds, notes).seeing(seen.for_denial(facts)))
        }
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
    let named = opened.call().named();
    let facts = Facts {
        requests: &named.requests,
        held_against: Some(&named.held_against),
        reached: &reached,
        errands: &named.errands,
        content_bytes: path_rules::content_bytes(arguments),
    };
    let mut notes = Notes::on(trail);
    match decide(&standing, situation, &facts, &mut notes) {
        Err(grounds) => {
            let seen = Seen::by(policy, situation, None);
            let facts = seen.for_denial(seen.with(&opened).value());
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

/// What the judge is told of a call besides its tool.
pub(crate) struct Facts<'a> {
    /// The paths it names.
    pub(crate) requests: &'a [PathRequest],
    /// What let all of them pass as they are typed, if something did.
    pub(crate) held_against: Option<&'a HeldAgainst>,
    /// What each of them reached, in the same order.
    pub(crate) reached: &'a [Reached],
    /// The programs and hosts it names.
    pub(crate) errands: &'a Errands,
    /// The bytes it brings with it.
    pub(crate) content_bytes: Option<u64>,
}

/// What a call names, by what it says alone.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) requests: Vec<PathRequest>,
    pub(crate) errands: Errands,
    pub(crate) held_against: HeldAgainst,
}

/// What became of a call that nothing denies.
#[derive(Debug)]
pub(crate) struct Decision {
    /// The rules that ask for a human; none means that it may run.
    pub(crate) asked_by: Vec<RuleRef>,
    /// Why the tool's rules, which are only recorded, would have denied it.
    pub(crate) would_deny: Option<Grounds>,
}

/// What can be said before anything is opened; the paths to open.
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
    Ok(Named { requests, errands, held_against: HeldAgainst::under(standing) })
}

/// The whole judgement, on facts alone.
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
    // Last, so that a human is never asked about a call that would be denied anyway.
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
    // Where every step is written down, all are taken.
    let is_known = !notes.are_read() && facts.held_against.is_some_and(|lists| lists.is_under(standing));
    for (reached, request) in facts.reached.iter().zip(facts.requests) {
        if !is_known {
            path_rules::refuse_typed(standing, request, notes)?;
        }
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
