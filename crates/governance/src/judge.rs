//! The judge: two pure, total functions. No I/O and no clock; all input is passed in.
//!
//! `precheck` decides before anything is opened, `judge` on what was opened. `judge` repeats the checks of
//! `precheck` on the call and on every name in it, so that a change of mode or policy in between takes
//! effect.

use std::sync::Arc;

use file_access::{OpenedCall, PathRequest};
use guardrail::ValidCall;
use tool::{Arguments, RuleRef};

use crate::decision_facts::SituationFacts;
use crate::denial_reason::DenialReason;
use crate::effective_policy::EffectivePolicy;
use crate::external_targets::ExternalTargets;
use crate::path_rules;
use crate::policy::Policy;
use crate::prechecked::Prechecked;
use crate::reached_path::ReachedPath;
use crate::rule_trace::{RuleTrace, TraceRecorder};
use crate::situation::Situation;
use crate::verdict::{ApprovalRequired, Denial, Permit, Verdict};

/// Checks a call by its mode, category, rate limits and names as typed, before any of its paths is opened.
///
/// No path is opened for a call that is denied here.
pub fn precheck(policy: &Policy, situation: &Situation<'_>, call: ValidCall) -> Result<Prechecked, Denial> {
    precheck_traced(policy, situation, call, &mut RuleTrace::disabled())
}

/// Like `precheck`, and records every rule it evaluates in `trace`.
pub fn precheck_traced(
    policy: &Policy,
    situation: &Situation<'_>,
    call: ValidCall,
    trace: &mut RuleTrace,
) -> Result<Prechecked, Denial> {
    let definition = Arc::clone(call.definition());
    let effective_policy = EffectivePolicy::new(policy, &definition);
    let mut notes = TraceRecorder::new(trace);
    match check_typed(&effective_policy, situation, call.arguments(), &mut notes) {
        Ok(named) => {
            let own = effective_policy.timeout();
            let timeout = effective_policy.stricter().map_or(own, |stricter| stricter.timeout().min(own));
            Ok(Prechecked::new(call, named, effective_policy.guard(situation), timeout))
        }
        Err(reason) => {
            let situation_facts = SituationFacts::new(policy, situation, None);
            let facts = situation_facts.unopened_facts(&definition, call.arguments(), situation.workspaces);
            Err(build_denial(&effective_policy, reason, notes)
                .with_facts(situation_facts.limit_for_denial(facts)))
        }
    }
}

/// Judges a call by the objects that its names lead to, and returns the verdict.
pub fn judge(policy: &Policy, situation: &Situation<'_>, opened: OpenedCall<Prechecked>) -> Verdict {
    judge_traced(policy, situation, opened, &mut RuleTrace::disabled())
}

/// Like `judge`, and records every rule it evaluates in `trace`.
pub fn judge_traced(
    policy: &Policy,
    situation: &Situation<'_>,
    opened: OpenedCall<Prechecked>,
    trace: &mut RuleTrace,
) -> Verdict {
    let definition = Arc::clone(opened.call().call().definition());
    let effective_policy = EffectivePolicy::new(policy, &definition);
    let reached: Vec<ReachedPath> = opened.paths().iter().map(ReachedPath::from_opened).collect();
    let arguments = opened.call().call().arguments();
    let named = opened.call().named_targets();
    let facts = DecisionInput {
        path_requests: &named.path_requests,
        reached_paths: &reached,
        external_targets: &named.external_targets,
        content_bytes: path_rules::content_bytes(arguments),
    };
    let mut notes = TraceRecorder::new(trace);
    match decide(&effective_policy, situation, &facts, &mut notes) {
        Err(reason) => {
            let situation_facts = SituationFacts::new(policy, situation, None);
            let facts = situation_facts.limit_for_denial(situation_facts.opened_facts(&opened));
            Verdict::Denial(build_denial(&effective_policy, reason, notes).with_facts(facts))
        }
        Ok(PermitDecision { approval_rules, shadow_denial }) => {
            let tool = definition.name().as_str();
            let shadow_denial = shadow_denial.map(|reason| reason.into_refusal(tool));
            let situation_facts = SituationFacts::new(policy, situation, shadow_denial);
            let own = effective_policy.limits(situation, &named.external_targets);
            let own = effective_policy.within_projects(own, situation, &facts);
            let limits = match effective_policy.stricter() {
                Some(stricter) => {
                    let limits = stricter.limits(situation, &named.external_targets);
                    own.intersection(stricter.within_projects(limits, situation, &facts))
                }
                None => own,
            };
            let permit = Permit::new(opened, notes.passed_rules, limits, situation_facts);
            match approval_rules.is_empty() {
                true => Verdict::Permit(permit),
                false => Verdict::ApprovalRequired(ApprovalRequired::new(permit, approval_rules)),
            }
        }
    }
}

/// Facts about a call that the judge decides on, besides its tool.
pub(crate) struct DecisionInput<'a> {
    /// Paths that the call names.
    pub(crate) path_requests: &'a [PathRequest],
    /// Objects that the paths lead to, in the same order.
    pub(crate) reached_paths: &'a [ReachedPath],
    /// Programs and hosts that the call names.
    pub(crate) external_targets: &'a ExternalTargets,
    /// Size of the content in the arguments.
    pub(crate) content_bytes: Option<u64>,
}

/// Paths, programs and hosts that a call names, read from its arguments alone.
#[derive(Debug)]
pub(crate) struct NamedTargets {
    pub(crate) path_requests: Vec<PathRequest>,
    pub(crate) external_targets: ExternalTargets,
}

/// Decision on a call that no rule denies.
#[derive(Debug)]
pub(crate) struct PermitDecision {
    /// Rules that require approval; empty if the call may run without it.
    pub(crate) approval_rules: Vec<RuleRef>,
    /// Reason for which the tool's rules would deny the call if they were not in shadow mode.
    pub(crate) shadow_denial: Option<DenialReason>,
}

/// Runs every check that needs no opened path, and returns what the call names.
pub(crate) fn check_typed(
    effective_policy: &EffectivePolicy<'_>,
    situation: &Situation<'_>,
    arguments: &Arguments,
    notes: &mut TraceRecorder<'_>,
) -> Result<NamedTargets, DenialReason> {
    effective_policy.admit(situation, notes)?;
    let targets = ExternalTargets::from_arguments(effective_policy.definition, arguments);
    effective_policy.admit_external_targets(&targets, notes)?;
    let requests = path_rules::path_requests(effective_policy, arguments, situation.workspaces)?;
    for request in &requests {
        path_rules::admit_typed(effective_policy, situation.workspaces, request, notes)?;
    }
    if let Some(stricter) = effective_policy.stricter() {
        check_typed(&stricter, situation, arguments, notes)?;
    }
    Ok(NamedTargets { path_requests: requests, external_targets: targets })
}

/// Decides on a call from facts alone.
pub(crate) fn decide(
    effective_policy: &EffectivePolicy<'_>,
    situation: &Situation<'_>,
    facts: &DecisionInput<'_>,
    notes: &mut TraceRecorder<'_>,
) -> Result<PermitDecision, DenialReason> {
    let mut discarded_trace = RuleTrace::disabled();
    let enforced_policy = effective_policy.with_shadow_rules();
    let would_deny = enforced_policy
        .and_then(|s| check_facts(&s, situation, facts, &mut TraceRecorder::new(&mut discarded_trace)).err());
    would_deny.iter().for_each(|reason| notes.record_shadow_denial(reason));
    check_facts(effective_policy, situation, facts, notes)?;
    let mut by_projects = Vec::new();
    for project in effective_policy.policy.projects.iter() {
        by_projects.extend(project.check(effective_policy, situation, facts, notes)?);
    }
    let stricter = effective_policy.stricter().map(|stricter| decide(&stricter, situation, facts, notes));
    let stricter = stricter.transpose()?;
    // Last, so that no approval is requested for a call that would be denied anyway.
    let tool_approvals = effective_policy.tool_approvals(facts.reached_paths, notes);
    let mut approval_rules = effective_policy.approval_rules(situation.mode, tool_approvals, notes);
    approval_rules.extend(by_projects);
    let (more, also) = stricter.map(|found| (found.approval_rules, found.shadow_denial)).unwrap_or_default();
    approval_rules.extend(more);
    Ok(PermitDecision { approval_rules, shadow_denial: would_deny.or(also) })
}

fn check_facts(
    effective_policy: &EffectivePolicy<'_>,
    situation: &Situation<'_>,
    facts: &DecisionInput<'_>,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    effective_policy.admit(situation, notes)?;
    for (reached, request) in facts.reached_paths.iter().zip(facts.path_requests) {
        path_rules::refuse_typed(effective_policy, request, notes)?;
        path_rules::admit_reached(effective_policy, situation, reached, request, notes)?;
    }
    effective_policy.admit_external_targets(facts.external_targets, notes)?;
    path_rules::refuse_large_content(effective_policy, facts.content_bytes, notes)
}

fn build_denial(
    effective_policy: &EffectivePolicy<'_>,
    reason: DenialReason,
    mut notes: TraceRecorder<'_>,
) -> Denial {
    notes.record_denied(effective_policy.definition, &reason);
    Denial::new(effective_policy.definition.name().as_str(), reason, notes.passed_rules)
}

#[cfg(test)]
pub(crate) mod tests;
