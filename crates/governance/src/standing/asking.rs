//! Rules that require approval, and the paths on which the approvals of `tools.yaml` are waived.

use tool::{Mode, RuleRef};

use super::Standing;
use crate::glob::Written;
use crate::mode_rules::Subject;
use crate::name::Name;
use crate::reached::Reached;
use crate::trail::{Notes, Trail};

/// State of the approvals that `tools.yaml` requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// They are required.
    Asked,
    /// They are waived: every path of the call is in `unattended_paths`.
    LeftOut,
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

impl<'a> Standing<'a> {
    /// Returns the access of the tool in a mode, without its rates and arguments, and the rule that decides.
    pub fn access(&self, mode: Mode, attendance: Attendance) -> (Access, Option<RuleRef>) {
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        match self.admit_without_rates(mode, &mut notes) {
            Err(grounds) => (Access::Denied, grounds.rule().cloned()),
            Ok(()) => match self.approvals(mode, attendance, &mut notes).into_iter().next() {
                Some(rule) => (Access::Asks, Some(rule)),
                None => (Access::Runs, notes.passed.first().cloned()),
            },
        }
    }

    /// Returns `Waived` if every path of the call, with symbolic links resolved, is in `unattended_paths`.
    pub(crate) fn attendance(&self, reached: &[Reached], notes: &mut Notes<'_>) -> Attendance {
        let Some(rules) = self.rules.filter(|rules| !rules.unattended.written().is_empty()) else {
            return Attendance::Asked;
        };
        let listed = |path: &Reached| {
            let mut folders = path.missing_folders.iter();
            let is_listed =
                |name: &Option<Name>| name.as_ref().is_some_and(|name| rules.unattended.find(name).is_some());
            folders.all(is_listed).then(|| rules.unattended.find(path.name.as_ref()?)).flatten()
        };
        let found: Option<Vec<&Written>> = reached.iter().map(listed).collect();
        match found.filter(|found| !found.is_empty()) {
            Some(found) => {
                for (written, path) in found.into_iter().zip(reached) {
                    let name = || path.name.as_ref().map(ToString::to_string).unwrap_or_default();
                    notes.holds(&written.rule, || written.text.clone(), name);
                }
                Attendance::LeftOut
            }
            None => Attendance::Asked,
        }
    }

    /// Returns every rule that requires approval.
    pub(crate) fn approvals(
        &self,
        mode: Mode,
        attendance: Attendance,
        notes: &mut Notes<'_>,
    ) -> Vec<RuleRef> {
        let subject = Subject {
            tool: self.definition.name().as_str(),
            category: self.category,
            risk: self.risk,
            writes: self.changes_things(),
            leaves: self.goes_out(),
        };
        let in_mode = |list: &'a [(Mode, RuleRef)]| {
            list.iter().filter(move |(known, _)| *known == mode).map(|(_, rule)| rule)
        };
        let definition =
            self.definition.requires_approval().then(|| self.definition_rule("requires_approval"));
        let always = self.rules.and_then(|rules| rules.approval.as_ref());
        let tool = self.rules.into_iter().flat_map(|rules| in_mode(&rules.approval_modes));
        let category = self.category_rules.into_iter().flat_map(|rules| in_mode(&rules.approval_modes));
        let by_mode = self.policy.modes.get(mode).approvals.iter();
        let by_mode = by_mode.filter(|(what, _)| what.applies(&subject)).map(|(_, rule)| rule);
        let safety = self.policy.safety.approvals.iter().filter(|rule| rule.applies(&subject, mode));
        let abroad = self.policy.safety.gateway.asks.as_ref().filter(|_| self.goes_out());
        // `unattended_paths` waives the approvals of tools.yaml only, not those of a mode, safety.yaml or the
        // definition.
        let is_asked = attendance == Attendance::Asked;
        let in_tools = always.into_iter().chain(tool).chain(category).filter(|_| is_asked);
        let stated = in_tools.chain(by_mode).chain(safety.map(|rule| &rule.rule)).chain(abroad);
        let asked: Vec<RuleRef> = definition.into_iter().chain(stated.cloned()).collect();
        if notes.are_read() {
            notes.asks(|| format!("{} of risk {} in {mode}", self.definition.name(), self.risk));
            notes.skips(self.silent_about(&asked));
        }
        notes.asked_by(&asked, || format!("{} in {mode}", self.definition.name()));
        asked
    }

    /// Returns the approval rules that do not apply to this call.
    fn silent_about(&self, asked: &[RuleRef]) -> impl Iterator<Item = (&'a RuleRef, String)> {
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
