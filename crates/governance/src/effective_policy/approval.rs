//! Rules that require approval, and the paths on which the approvals of `tools.yaml` are waived.

use tool::{Mode, RuleRef};

use super::EffectivePolicy;
use crate::glob::ListedPattern;
use crate::mode_rules::ApprovalSubject;
use crate::normalized_path::NormalizedPath;
use crate::reached_path::ReachedPath;
use crate::rule_trace::{RuleTrace, TraceRecorder};

/// State of the approvals that `tools.yaml` requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolApprovals {
    /// They are required.
    Required,
    /// They are waived: every path of the call is in `unattended_paths`.
    Waived,
}

/// Access of a tool in a mode, the strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Every call is denied.
    Denied,
    /// Calls require approval.
    Asks,
    /// Calls run without approval.
    Runs,
}

impl<'a> EffectivePolicy<'a> {
    /// Returns the access of the tool in a mode, without its rates and arguments, and the rule that decides.
    pub fn access(&self, mode: Mode, tool_approvals: ToolApprovals) -> (Access, Option<RuleRef>) {
        let mut trace = RuleTrace::disabled();
        let mut notes = TraceRecorder::new(&mut trace);
        match self.admit_without_rates(mode, &mut notes) {
            Err(reason) => (Access::Denied, reason.rule().cloned()),
            Ok(()) => match self.approval_rules(mode, tool_approvals, &mut notes).into_iter().next() {
                Some(rule) => (Access::Asks, Some(rule)),
                None => (Access::Runs, notes.passed_rules.first().cloned()),
            },
        }
    }

    /// Returns `Waived` if every path of the call, with symbolic links resolved, is in `unattended_paths`.
    pub(crate) fn tool_approvals(
        &self,
        reached: &[ReachedPath],
        notes: &mut TraceRecorder<'_>,
    ) -> ToolApprovals {
        let Some(rules) = self.rules.filter(|rules| !rules.unattended_paths.patterns().is_empty()) else {
            return ToolApprovals::Required;
        };
        let listed = |path: &ReachedPath| {
            let mut folders = path.missing_folders.iter();
            let is_listed = |name: &Option<NormalizedPath>| {
                name.as_ref().is_some_and(|name| rules.unattended_paths.find(name).is_some())
            };
            folders.all(is_listed).then(|| rules.unattended_paths.find(path.name.as_ref()?)).flatten()
        };
        let found: Option<Vec<&ListedPattern>> = reached.iter().map(listed).collect();
        match found.filter(|found| !found.is_empty()) {
            Some(found) => {
                for (written, path) in found.into_iter().zip(reached) {
                    let name = || path.name.as_ref().map(ToString::to_string).unwrap_or_default();
                    notes.record_satisfied(&written.rule, || written.text.clone(), name);
                }
                ToolApprovals::Waived
            }
            None => ToolApprovals::Required,
        }
    }

    /// Returns every rule that requires approval.
    pub(crate) fn approval_rules(
        &self,
        mode: Mode,
        tool_approvals: ToolApprovals,
        notes: &mut TraceRecorder<'_>,
    ) -> Vec<RuleRef> {
        let subject = ApprovalSubject {
            tool: self.definition.name().as_str(),
            category: self.category,
            risk: self.risk,
            writes: self.may_change_files(),
            is_outbound: self.is_outbound(),
        };
        let in_mode = |list: &'a [(Mode, RuleRef)]| {
            list.iter().filter(move |(known, _)| *known == mode).map(|(_, rule)| rule)
        };
        let definition =
            self.definition.requires_approval().then(|| self.definition_rule("requires_approval"));
        let always = self.rules.and_then(|rules| rules.approval_rule.as_ref());
        let tool = self.rules.into_iter().flat_map(|rules| in_mode(&rules.approval_modes));
        let category = self.category_rules.into_iter().flat_map(|rules| in_mode(&rules.approval_modes));
        let by_mode = self.policy.modes.get(mode).approvals.iter();
        let by_mode = by_mode.filter(|(what, _)| what.applies(&subject)).map(|(_, rule)| rule);
        let safety = self.policy.safety.approvals.iter().filter(|rule| rule.applies(&subject, mode));
        let outbound = self.policy.safety.gateway.approval_rule.as_ref().filter(|_| self.is_outbound());
        // `unattended_paths` waives the approvals of tools.yaml only, not those of a mode, safety.yaml or the
        // definition.
        let is_asked = tool_approvals == ToolApprovals::Required;
        let in_tools = always.into_iter().chain(tool).chain(category).filter(|_| is_asked);
        let stated = in_tools.chain(by_mode).chain(safety.map(|rule| &rule.rule)).chain(outbound);
        let asked: Vec<RuleRef> = definition.into_iter().chain(stated.cloned()).collect();
        if notes.is_enabled() {
            notes.set_value(|| format!("{} of risk {} in {mode}", self.definition.name(), self.risk));
            notes.record_skipped(self.inapplicable_approvals(&asked));
        }
        notes.record_approvals(&asked, || format!("{} in {mode}", self.definition.name()));
        asked
    }

    /// Returns the approval rules that do not apply to this call.
    fn inapplicable_approvals(&self, asked: &[RuleRef]) -> impl Iterator<Item = (&'a RuleRef, String)> {
        let in_modes = |list: &'a [(Mode, RuleRef)]| list.iter().map(|(mode, rule)| (rule, mode.to_string()));
        let tool = self.rules.into_iter().flat_map(move |rules| in_modes(&rules.approval_modes));
        let category = self.category_rules.into_iter().flat_map(move |rules| in_modes(&rules.approval_modes));
        let modes = Mode::ALL.into_iter().flat_map(|mode| &self.policy.modes.get(mode).approvals);
        let modes = modes.map(|(what, rule)| (rule, what.to_string()));
        let safety = self.policy.safety.approvals.iter().map(|rule| (&rule.rule, rule.to_string()));
        let asked = asked.to_vec();
        tool.chain(category).chain(modes).chain(safety).filter(move |(rule, _)| !asked.contains(rule))
    }
}
