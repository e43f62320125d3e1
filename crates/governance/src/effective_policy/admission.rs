//! Checks whether a tool may run at all: by mode, by category, and by whether its rules can be enforced.

use tool::definition::ExternalTargetKind;
use tool::{Mode, RefusalCode, RuleRef};

use super::EffectivePolicy;
use crate::denial_reason::{DenialReason, rule_location};
use crate::rule_trace::{RuleTrace, TraceRecorder};
use crate::situation::{RateCounts, Situation};
use crate::tools_file::Isolation;

impl<'a> EffectivePolicy<'a> {
    /// Checks everything that needs no path: mode, category, enforceability and rates. Records the rules that
    /// passed.
    pub(crate) fn admit(
        &self,
        situation: &Situation<'_>,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<(), DenialReason> {
        self.admit_without_rates(situation.mode, notes)?;
        let rates = self.rates(situation.mode);
        rates.check(situation.counts, notes)
    }

    /// Returns the rules that admit the tool in a mode if no call has been counted; `None` if it is denied.
    pub fn admitting_rules(&self, mode: Mode) -> Option<Vec<RuleRef>> {
        let mut trace = RuleTrace::disabled();
        let mut notes = TraceRecorder::new(&mut trace);
        self.admit_without_rates(mode, &mut notes).ok()?;
        self.rates(mode).check(RateCounts::default(), &mut notes).ok()?;
        Some(notes.passed_rules)
    }

    /// Returns true if the mode allows the category of the tool.
    pub fn is_category_allowed_in(&self, mode: Mode) -> bool {
        self.admit_category(mode, &mut TraceRecorder::new(&mut RuleTrace::disabled())).is_ok()
    }

    /// Like `admit`, without the rate limits.
    pub(crate) fn admit_without_rates(
        &self,
        mode: Mode,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<(), DenialReason> {
        self.admit_mode(mode, notes)?;
        self.admit_category(mode, notes)?;
        self.refuse_unenforceable(notes)
    }

    /// Denies a mode that the rules forbid, and nothing else.
    pub(crate) fn refuse_forbidden_mode(&self, mode: Mode) -> Result<(), DenialReason> {
        let forbidden = self.rules.map_or(&[][..], |rules| &rules.forbidden_modes);
        match forbidden.iter().find(|(known, _)| *known == mode) {
            Some((_, rule)) => Err(self.mode_denied(mode, "forbidden", rule)),
            None => Ok(()),
        }
    }

    /// Returns true if the modes of the tool and the categories of the mode allow it.
    pub(crate) fn may_run_in(&self, mode: Mode) -> bool {
        let mut trace = RuleTrace::disabled();
        let mut notes = TraceRecorder::new(&mut trace);
        self.admit_mode(mode, &mut notes).is_ok() && self.admit_category(mode, &mut notes).is_ok()
    }

    /// Checks the mode: forbidden overrides approval, and approval overrides allowed; a mode in no list is
    /// denied.
    fn admit_mode(&self, mode: Mode, notes: &mut TraceRecorder<'_>) -> Result<(), DenialReason> {
        let value = || mode.to_string();
        let mut find = |list: &'a [(Mode, RuleRef)]| {
            let found = list.iter().position(|(known, _)| *known == mode);
            notes.set_value(value);
            notes.record_skipped(
                list.iter().take(found.unwrap_or(list.len())).map(|(known, rule)| (rule, known.to_string())),
            );
            found.and_then(|at| list.get(at)).map(|(_, rule)| rule)
        };
        let found = match self.rules {
            Some(rules) => match find(&rules.forbidden_modes) {
                Some(rule) => return Err(self.mode_denied(mode, "forbidden", rule)),
                None => match (find(&rules.approval_modes), &rules.allowed_modes) {
                    (Some(rule), _) => Some(Ok(rule)),
                    (None, Some(list)) => Some(find(&list.modes).ok_or(&list.rule)),
                    (None, None) => None,
                },
            },
            None => None,
        };
        let rule = match found {
            Some(Ok(rule)) => rule.clone(),
            Some(Err(list)) => return Err(self.mode_denied(mode, "not_listed", list)),
            None => {
                let rule = self.definition_rule("allowed_modes");
                if !self.definition.allowed_modes().contains(&mode) {
                    notes.set_value(value);
                    return Err(self.mode_denied(mode, "not_listed", &rule));
                }
                rule
            }
        };
        notes.record_passed(rule, value, value);
        Ok(())
    }

    fn mode_denied(&self, mode: Mode, detail: &str, rule: &RuleRef) -> DenialReason {
        let other_modes: Vec<&str> = Mode::ALL
            .into_iter()
            .filter(|other| *other != mode && self.can_run_in(*other))
            .map(Mode::as_str)
            .collect();
        let hint = match other_modes.as_slice() {
            [] => format!("no mode allows `{}` (see {})", self.definition.name(), rule_location(rule)),
            modes => {
                format!(
                    "it is allowed in {} (see {}); the operator sets the mode",
                    modes.join(", "),
                    rule_location(rule)
                )
            }
        };
        let reason = format!("Tool not allowed in {mode} mode");
        DenialReason::new(RefusalCode::ModeDenied, detail, &reason, hint, rule)
    }

    fn can_run_in(&self, mode: Mode) -> bool {
        let rules = self.policy.modes.get(mode);
        let has_task_slots = !matches!(rules.max_concurrent, Some((0, _)));
        let takes_category =
            rules.categories.is_empty() || rules.categories.iter().any(|(known, _)| known == self.category);
        has_task_slots && takes_category && self.is_listed_for(mode)
    }

    fn is_listed_for(&self, mode: Mode) -> bool {
        let has = |list: &[(Mode, RuleRef)]| list.iter().any(|(known, _)| *known == mode);
        let by_definition = || self.definition.allowed_modes().contains(&mode);
        match self.rules {
            Some(rules) if has(&rules.forbidden_modes) => false,
            Some(rules) if has(&rules.approval_modes) => true,
            Some(rules) => rules.allowed_modes.as_ref().map_or_else(by_definition, |list| has(&list.modes)),
            None => by_definition(),
        }
    }

    fn admit_category(&self, mode: Mode, notes: &mut TraceRecorder<'_>) -> Result<(), DenialReason> {
        let rules = self.policy.modes.get(mode);
        notes.set_value(|| self.category.to_string());
        if let Some((0, rule)) = &rules.max_concurrent {
            return Err(self.mode_denied(mode, "no_tasks", rule));
        }
        let Some((_, first)) = rules.categories.first() else { return Ok(()) };
        let found = rules.categories.iter().position(|(category, _)| category == self.category);
        let before = rules.categories.iter().take(found.unwrap_or(rules.categories.len()));
        notes.record_skipped(before.map(|(category, rule)| (rule, category.to_string())));
        if let Some((category, rule)) = found.and_then(|at| rules.categories.get(at)) {
            notes.record_passed(rule.clone(), || category.to_string(), || category.to_string());
            return Ok(());
        }
        let names: Vec<&str> = rules.categories.iter().map(|(category, _)| category.as_str()).collect();
        let hint = format!(
            "`{}` has category {}; {} allows only {}",
            self.definition.name(),
            self.category,
            rule_location(first),
            names.join(", ")
        );
        let reason = format!("Tool not allowed in {mode} mode");
        Err(DenialReason::new(RefusalCode::ModeDenied, "category", &reason, hint, first))
    }

    /// Denies a call whose rules cannot be enforced: a call must never run past a written limit.
    fn refuse_unenforceable(&self, notes: &mut TraceRecorder<'_>) -> Result<(), DenialReason> {
        let value = self.rules.and_then(|rules| rules.sandbox_rule.clone());
        match (value, self.definition.requires_sandbox()) {
            (Some(rule), true) => self.admit_isolation(&rule, notes)?,
            (None, true) => self.admit_isolation(&self.definition_rule("requires_sandbox"), notes)?,
            (Some(rule), false) => return Err(self.not_confinable(&rule)),
            (None, false) => {}
        }
        self.refuse_unbound_rules()
    }

    /// Denies a tool that runs inside the daemon: only a tool that starts a process of its own can be
    /// sandboxed.
    fn not_confinable(&self, rule: &RuleRef) -> DenialReason {
        let name = self.definition.name();
        let hint = format!(
            "{} requires it, but `{name}` runs inside the Sinew process, which cannot be sandboxed; \
             its paths are restricted by `allowed_paths`. Remove the rule to let it run",
            rule_location(rule)
        );
        let reason = "Tool must run confined, and this tool cannot be confined";
        DenialReason::new(RefusalCode::SandboxUnavailable, "not_confinable", reason, hint, rule)
    }

    /// Checks that this machine provides the required isolation.
    fn admit_isolation(&self, rule: &RuleRef, notes: &mut TraceRecorder<'_>) -> Result<(), DenialReason> {
        let least = self.rules.map(|rules| rules.confinement).unwrap_or_default().min_isolation;
        let word = |level| match level {
            Isolation::Full => "full confinement",
            Isolation::Reduced => "reduced confinement",
        };
        notes.set_value(|| word(least).to_owned());
        let (detail, reason) = match (self.policy.isolation, least) {
            (Some(Isolation::Full), _) | (Some(Isolation::Reduced), Isolation::Reduced) => {
                notes.record_satisfied(rule, || word(least).to_owned(), || word(least).to_owned());
                return Ok(());
            }
            (Some(Isolation::Reduced), Isolation::Full) => (
                "only_reduced_sandbox",
                "Tool must run in full confinement, and only a reduced one is available",
            ),
            (None, _) => ("no_sandbox", "Tool must run confined, and no confinement is available"),
        };
        let hint = format!(
            "{} requires it, and the call never runs with less. `sinew doctor` shows what this machine lacks",
            rule_location(rule)
        );
        Err(DenialReason::new(RefusalCode::SandboxUnavailable, detail, reason, hint, rule))
    }

    /// Denies a tool with command or host rules that declares no such argument: the rules could not be
    /// enforced, and a call must never run past a written limit.
    fn refuse_unbound_rules(&self) -> Result<(), DenialReason> {
        let Some(rules) = self.rules.map(|rules| rules.shadow.as_deref().unwrap_or(rules)) else {
            return Ok(());
        };
        let has =
            |kind| self.definition.external_target_arguments().iter().any(|argument| argument.kind == kind);
        let refuse = |code, rule: &RuleRef, what: &str| {
            let reason = format!("{} does not apply to this tool", rule_location(rule));
            let hint = format!("no argument of `{}` is {what}; remove the rule", self.definition.name());
            Err(DenialReason::new(code, "not_judged", &reason, hint, rule))
        };
        match (rules.commands.first_rule(), &rules.hosts) {
            (Some(rule), _) if !has(ExternalTargetKind::Command) => {
                refuse(RefusalCode::CommandNotAllowed, rule, "a command")
            }
            (_, Some(list)) if !self.is_outbound() => {
                refuse(RefusalCode::DomainNotAllowed, &list.rule, "an address")
            }
            _ => Ok(()),
        }
    }
}
