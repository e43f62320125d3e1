//! Checks whether a tool may run at all: by mode, by category, and by whether its rules can be enforced.

use tool::{Mode, Outward, RefusalCode, RuleRef};

use super::Standing;
use crate::grounds::{Grounds, place};
use crate::situation::{Counts, Situation};
use crate::tools_file::Isolation;
use crate::trail::{Notes, Trail};

impl<'a> Standing<'a> {
    /// Checks everything that needs no path: mode, category, enforceability and rates. Records the rules that
    /// passed.
    pub(crate) fn admit(&self, situation: &Situation<'_>, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        self.admit_without_rates(situation.mode, notes)?;
        let rates = self.rates(situation.mode);
        rates.check(situation.counts, notes)
    }

    /// Returns the rules that admit the tool in a mode if no call has been counted; `None` if it is denied.
    pub fn admitting_rules(&self, mode: Mode) -> Option<Vec<RuleRef>> {
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        self.admit_without_rates(mode, &mut notes).ok()?;
        self.rates(mode).check(Counts::default(), &mut notes).ok()?;
        Some(notes.passed)
    }

    /// Returns true if the mode allows the category of the tool.
    pub fn is_category_allowed_in(&self, mode: Mode) -> bool {
        self.admit_category(mode, &mut Notes::on(&mut Trail::off())).is_ok()
    }

    /// Like `admit`, without the rate limits.
    pub(crate) fn admit_without_rates(&self, mode: Mode, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        self.admit_mode(mode, notes)?;
        self.admit_category(mode, notes)?;
        self.admit_enforceable(notes)
    }

    /// Returns true if the modes of the tool and the categories of the mode allow it.
    pub(crate) fn may_run_in(&self, mode: Mode) -> bool {
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        self.admit_mode(mode, &mut notes).is_ok() && self.admit_category(mode, &mut notes).is_ok()
    }

    /// Checks the mode: forbidden overrides approval, and approval overrides allowed; a mode in no list is
    /// denied.
    fn admit_mode(&self, mode: Mode, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        let asked = || mode.to_string();
        let mut find = |list: &'a [(Mode, RuleRef)]| {
            let found = list.iter().position(|(known, _)| *known == mode);
            notes.asks(asked);
            notes.skips(
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
                    notes.asks(asked);
                    return Err(self.mode_denied(mode, "not_listed", &rule));
                }
                rule
            }
        };
        notes.passes(rule, asked, asked);
        Ok(())
    }

    fn mode_denied(&self, mode: Mode, detail: &str, rule: &RuleRef) -> Grounds {
        let elsewhere: Vec<&str> = Mode::ALL
            .into_iter()
            .filter(|other| *other != mode && self.runs_in(*other))
            .map(Mode::as_str)
            .collect();
        let hint = match elsewhere.as_slice() {
            [] => format!("no mode allows `{}` (see {})", self.definition.name(), place(rule)),
            modes => {
                format!(
                    "it is allowed in {} (see {}); the operator sets the mode",
                    modes.join(", "),
                    place(rule)
                )
            }
        };
        let reason = format!("Tool not allowed in {mode} mode");
        Grounds::new(RefusalCode::ModeDenied, detail, &reason, hint, rule)
    }

    fn runs_in(&self, mode: Mode) -> bool {
        let rules = self.policy.modes.get(mode);
        let has_room = !matches!(rules.max_concurrent, Some((0, _)));
        let takes_category =
            rules.categories.is_empty() || rules.categories.iter().any(|(known, _)| known == self.category);
        has_room && takes_category && self.is_listed_for(mode)
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

    fn admit_category(&self, mode: Mode, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        let rules = self.policy.modes.get(mode);
        notes.asks(|| self.category.to_string());
        if let Some((0, rule)) = &rules.max_concurrent {
            return Err(self.mode_denied(mode, "no_tasks", rule));
        }
        let Some((_, first)) = rules.categories.first() else { return Ok(()) };
        let found = rules.categories.iter().position(|(category, _)| category == self.category);
        let before = rules.categories.iter().take(found.unwrap_or(rules.categories.len()));
        notes.skips(before.map(|(category, rule)| (rule, category.to_string())));
        if let Some((category, rule)) = found.and_then(|at| rules.categories.get(at)) {
            notes.passes(rule.clone(), || category.to_string(), || category.to_string());
            return Ok(());
        }
        let names: Vec<&str> = rules.categories.iter().map(|(category, _)| category.as_str()).collect();
        let hint = format!(
            "`{}` has category {}; {} allows only {}",
            self.definition.name(),
            self.category,
            place(first),
            names.join(", ")
        );
        let reason = format!("Tool not allowed in {mode} mode");
        Err(Grounds::new(RefusalCode::ModeDenied, "category", &reason, hint, first))
    }

    /// Denies a call whose rules cannot be enforced: a call must never run past a written limit.
    fn admit_enforceable(&self, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        let asked = self.rules.and_then(|rules| rules.sandbox.clone());
        match (asked, self.definition.requires_sandbox()) {
            (Some(rule), true) => self.admit_confined(&rule, notes)?,
            (None, true) => self.admit_confined(&self.definition_rule("requires_sandbox"), notes)?,
            (Some(rule), false) => return Err(self.not_confinable(&rule)),
            (None, false) => {}
        }
        self.admit_judgeable()
    }

    /// Denies a tool that runs inside the daemon: only a tool that starts a process of its own can be
    /// sandboxed.
    fn not_confinable(&self, rule: &RuleRef) -> Grounds {
        let name = self.definition.name();
        let hint = format!(
            "{} requires it, but `{name}` runs inside the Sinew process, which cannot be sandboxed; \
             its paths are restricted by `allowed_paths`. Remove the rule to let it run",
            place(rule)
        );
        let reason = "Tool must run confined, and this tool cannot be confined";
        Grounds::new(RefusalCode::SandboxUnavailable, "not_confinable", reason, hint, rule)
    }

    /// Checks that this machine provides the required isolation.
    fn admit_confined(&self, rule: &RuleRef, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        let least = self.rules.map(|rules| rules.confinement).unwrap_or_default().least;
        let word = |level| match level {
            Isolation::Full => "full confinement",
            Isolation::Reduced => "reduced confinement",
        };
        notes.asks(|| word(least).to_owned());
        let (detail, reason) = match (self.policy.isolation, least) {
            (Some(Isolation::Full), _) | (Some(Isolation::Reduced), Isolation::Reduced) => {
                notes.holds(rule, || word(least).to_owned(), || word(least).to_owned());
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
            place(rule)
        );
        Err(Grounds::new(RefusalCode::SandboxUnavailable, detail, reason, hint, rule))
    }

    /// Denies a tool with command or host rules that declares no such argument: the rules could not be
    /// enforced, and a call must never run past a written limit.
    fn admit_judgeable(&self) -> Result<(), Grounds> {
        let Some(rules) = self.rules.map(|rules| rules.shadow.as_deref().unwrap_or(rules)) else {
            return Ok(());
        };
        let has = |kind| self.definition.outward_arguments().iter().any(|argument| argument.kind == kind);
        let refuse = |code, rule: &RuleRef, what: &str| {
            let reason = format!("{} does not apply to this tool", place(rule));
            let hint = format!("no argument of `{}` is {what}; remove the rule", self.definition.name());
            Err(Grounds::new(code, "not_judged", &reason, hint, rule))
        };
        match (rules.commands.bind(), &rules.hosts) {
            (Some(rule), _) if !has(Outward::Command) => {
                refuse(RefusalCode::CommandNotAllowed, rule, "a command")
            }
            (_, Some(list)) if !self.goes_out() => {
                refuse(RefusalCode::DomainNotAllowed, &list.rule, "an address")
            }
            _ => Ok(()),
        }
    }
}
