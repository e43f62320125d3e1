//! How one tool stands under a policy: its entry in the file, and its definition where the file is silent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tool::{Category, Mode, Outward, RefusalCode, RiskLevel, RuleRef, ToolDefinition};

use crate::cleared::Guard;
use crate::command_rules::CommandRules;
use crate::errands::Errands;
use crate::glob::Written;
use crate::grounds::{Grounds, place};
use crate::host_rules::Outbound;
use crate::mode_rules::Subject;
use crate::name::Name;
use crate::policy::Policy;
use crate::rates::Rates;
use crate::reached::Reached;
use crate::sight::Sight;
use crate::situation::{Situation, Workspace, WorkspaceAccess};
use crate::tool_rules::{ToolRules, WayOut};
use crate::tools_file::Isolation;
use crate::trail::{Notes, Trail};
use crate::verdict::Limits;

/// What a tool may answer where no rule says otherwise.
const USUAL_OUTPUT_BYTES: u64 = 1024 * 1024;
/// What stands for the file of a rule that a tool brings with it.
const DEFINITION: &str = "tool definition";

/// Whether what `tools.yaml` asks a human about is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// It is.
    Asked,
    /// The call stays within `unattended_paths`.
    LeftOut,
}

/// A tool and the rules that hold for it.
pub(crate) struct Standing<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) definition: &'a ToolDefinition,
    pub(crate) rules: Option<&'a ToolRules>,
    category: &'a Category,
    pub(crate) risk: RiskLevel,
}

impl<'a> Standing<'a> {
    pub(crate) fn of(policy: &'a Policy, definition: &'a ToolDefinition) -> Self {
        let rules = policy.tools.get(definition.name());
        let category = rules.and_then(|rules| rules.category.as_ref()).unwrap_or(definition.category());
        let least = policy.categories.get(category).and_then(|category| category.risk);
        let risk = least.map_or(definition.risk_level(), |least| least.max(definition.risk_level()));
        Standing { policy, definition, rules, category, risk }
    }

    /// Mode, category, what cannot be enforced, rates: all that needs no path. The rules passed are noted.
    pub(crate) fn admit(&self, situation: &Situation<'_>, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        self.admit_without_rates(situation.mode, notes)?;
        let rates = self.rates(situation.mode);
        rates.check(situation.counts, notes)
    }

    /// The same without what depends on how much has run.
    pub(crate) fn admit_without_rates(&self, mode: Mode, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        self.admit_mode(mode, notes)?;
        self.admit_category(mode, notes)?;
        self.admit_enforceable(notes)
    }

    /// Whether neither the tool's modes nor the mode's categories are against it.
    pub(crate) fn may_run_in(&self, mode: Mode) -> bool {
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        self.admit_mode(mode, &mut notes).is_ok() && self.admit_category(mode, &mut notes).is_ok()
    }

    /// Forbidden beats approval beats allowed; a mode in no list is denied.
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
            [] => format!("no mode lets `{}` run; {} decides", self.definition.name(), place(rule)),
            modes => {
                format!("it runs in {}; {} decides, and a human sets the mode", modes.join(", "), place(rule))
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

    pub(crate) fn admit_category(&self, mode: Mode, notes: &mut Notes<'_>) -> Result<(), Grounds> {
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
            "`{}` is of category {}; {} lets only {} run",
            self.definition.name(),
            self.category,
            place(first),
            names.join(", ")
        );
        let reason = format!("Tool not allowed in {mode} mode");
        Err(Grounds::new(RefusalCode::ModeDenied, "category", &reason, hint, first))
    }

    /// A rule that nothing enforces yet denies: a call must never run past a limit somebody wrote down.
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

    /// Only a tool that starts its work in a process of its own can have walls around it.
    fn not_confinable(&self, rule: &RuleRef) -> Grounds {
        let name = self.definition.name();
        let hint = format!(
            "{} asks for it, and `{name}` works inside Sinew, where no walls can stand; its paths are held by \
             `allowed_paths`, and without the line it runs",
            place(rule)
        );
        let reason = "Tool must run confined, and this tool cannot be";
        Grounds::new(RefusalCode::SandboxUnavailable, "not_confinable", reason, hint, rule)
    }

    /// Whether this machine has the walls that are asked for.
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
            "{} asks for it; the call is never run weaker. `sinew doctor` says what this machine lacks",
            place(rule)
        );
        Err(Grounds::new(RefusalCode::SandboxUnavailable, detail, reason, hint, rule))
    }

    /// A rule about commands or hosts binds only a tool that declares which of its arguments they are. One that does
    /// not is refused: a call must never run past a limit somebody wrote down.
    fn admit_judgeable(&self) -> Result<(), Grounds> {
        let Some(rules) = self.rules.map(|rules| rules.shadow.as_deref().unwrap_or(rules)) else {
            return Ok(());
        };
        let has = |kind| self.definition.outward_arguments().iter().any(|argument| argument.kind == kind);
        let refuse = |code, rule: &RuleRef, what: &str| {
            let reason = format!("{} binds nothing of this tool", place(rule));
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

    /// Whether its calls leave the machine, by what it declares or by its category.
    pub(crate) fn goes_out(&self) -> bool {
        let gateway =
            || self.policy.categories.get(self.category).map(|rules| rules.way_out) == Some(WayOut::Gateway);
        *self.category == Category::NETWORK
            || self.definition.outward_arguments().iter().any(|argument| argument.kind == Outward::Url)
            || gateway()
    }

    /// Whether it may change what it reaches: it writes to a path, or starts a program, which may do anything.
    pub(crate) fn changes_things(&self) -> bool {
        let (paths, outward) = (self.definition.path_arguments(), self.definition.outward_arguments());
        *self.category == Category::SYSTEM_WRITE
            || paths.iter().any(|path| path.access.changes())
            || outward.iter().any(|argument| argument.kind == Outward::Command)
    }

    /// The commands and hosts a call names.
    pub(crate) fn admit_outward(&self, errands: &Errands, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        let none = CommandRules::none();
        let commands = self.rules.map_or(&none, |rules| &rules.commands);
        for command in &errands.commands {
            commands.admit(command, notes)?;
        }
        if !self.goes_out() {
            return Ok(());
        }
        let outbound = self.outbound();
        errands.targets.iter().try_for_each(|target| outbound.admit(target, notes))
    }

    /// What forbids, for files that have several names.
    pub(crate) fn guard(&self, situation: &Situation<'_>) -> Guard {
        let rules = self.rules.map(|rules| rules.shadow.as_deref().unwrap_or(rules));
        Guard {
            floor: Arc::clone(&self.policy.floor),
            forbidden: rules.map(|rules| Arc::clone(&rules.forbidden_paths)),
            workspaces: situation.workspaces.clone(),
        }
    }

    fn outbound(&self) -> Outbound {
        let own = self.rules.and_then(|rules| rules.hosts.clone());
        Outbound { own, gateway: Arc::clone(&self.policy.safety.gateway) }
    }

    /// The same tool under the rules that are only recorded, if there are such.
    pub(crate) fn in_earnest(&self) -> Option<Standing<'a>> {
        let shadow = self.rules?.shadow.as_deref()?;
        Some(Standing { rules: Some(shadow), ..*self })
    }

    /// Whether the call stays where `tools.yaml` lets its own questions go unasked: every path of it, as it leads.
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

    /// Every rule that asks for a human.
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
        let category = self.policy.categories.get(self.category);
        let category = category.into_iter().flat_map(|rules| in_mode(&rules.approval_modes));
        let by_mode = self.policy.modes.get(mode).approvals.iter();
        let by_mode = by_mode.filter(|(what, _)| what.applies(&subject)).map(|(_, rule)| rule);
        let safety = self.policy.safety.approvals.iter().filter(|rule| rule.applies(&subject, mode));
        let abroad = self.policy.safety.gateway.asks.as_ref().filter(|_| self.goes_out());
        // An entry of tools.yaml takes back what tools.yaml asks, not what a mode or the definition does.
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

    /// The rules that ask a human about something else than this call.
    fn silent_about(&self, asked: &[RuleRef]) -> impl Iterator<Item = (&'a RuleRef, String)> {
        let in_modes = |list: &'a [(Mode, RuleRef)]| list.iter().map(|(mode, rule)| (rule, mode.to_string()));
        let tool = self.rules.into_iter().flat_map(move |rules| in_modes(&rules.approval_modes));
        let category = self.policy.categories.get(self.category).into_iter();
        let category = category.flat_map(move |rules| in_modes(&rules.approval_modes));
        let modes = Mode::ALL.into_iter().flat_map(|mode| &self.policy.modes.get(mode).approvals);
        let modes = modes.map(|(what, rule)| (rule, what.to_string()));
        let safety = self.policy.safety.approvals.iter().map(|rule| (&rule.rule, rule.to_string()));
        let asked = asked.to_vec();
        tool.chain(category).chain(modes).chain(safety).filter(move |(rule, _)| !asked.contains(rule))
    }

    pub(crate) fn rates(&self, mode: Mode) -> Rates {
        let by_definition = || {
            let limit = self.definition.rate_limit_per_hour()?;
            Some((limit, self.definition_rule("rate_limit_per_hour")))
        };
        Rates {
            tool_per_hour: self.rules.and_then(|rules| rules.rate.clone()).or_else(by_definition),
            mode_per_minute: self.policy.safety.calls_per_minute.get(mode).clone(),
            outbound_per_hour: match self.goes_out() {
                true => self.policy.safety.outbound_per_hour.get(mode).clone(),
                false => None,
            },
        }
    }

    /// How often the tool itself may run in an hour.
    pub(crate) fn per_hour(&self) -> Option<u32> {
        let own = self.rules.and_then(|rules| rules.rate.as_ref()).map(|(limit, _)| *limit);
        own.or(self.definition.rate_limit_per_hour())
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.rules.and_then(|rules| rules.timeout).unwrap_or(self.definition.timeout())
    }

    /// The largest file it may read or write.
    pub(crate) fn max_file_bytes(&self) -> Option<u64> {
        self.rules.and_then(|rules| rules.max_file_bytes.as_ref()).map(|(most, _)| *most)
    }

    /// The most it may answer.
    pub(crate) fn max_output_bytes(&self) -> u64 {
        self.rules.and_then(|rules| rules.max_output_bytes).unwrap_or(USUAL_OUTPUT_BYTES)
    }

    pub(crate) fn limits(&self, situation: &Situation<'_>) -> Limits {
        Limits {
            timeout: self.timeout(),
            max_file_bytes: self.max_file_bytes(),
            max_output_bytes: self.max_output_bytes(),
            rates: self.rates(situation.mode),
            folders: self.folders(situation),
            program_folders: self.program_folders(),
            written_to: self.written_to(situation),
            max_response_bytes: self.policy.safety.gateway.max_response_bytes,
            outbound: self.goes_out().then(|| self.outbound()),
            confinement: self.rules.map(|rules| rules.confinement).unwrap_or_default(),
            sight: Sight {
                floor: Arc::clone(&self.policy.floor),
                forbidden: self.rules.map(|rules| Arc::clone(&rules.forbidden_paths)),
            },
        }
    }

    /// Where a confined process may work. A pattern that is not a whole folder cannot be a wall, and grants none.
    fn folders(&self, situation: &Situation<'_>) -> Vec<Workspace> {
        if !self.definition.requires_sandbox() {
            return Vec::new();
        }
        match self.rules.and_then(|rules| rules.allowed_paths.as_ref()) {
            Some(list) => list.folders.iter().map(|folder| Workspace::granted(folder)).collect(),
            None => situation.workspaces.iter().cloned().collect(),
        }
    }

    /// Where programs of its calls could have been put by a call.
    fn written_to(&self, situation: &Situation<'_>) -> Vec<PathBuf> {
        if !self.definition.requires_sandbox() {
            return Vec::new();
        }
        let own = self.folders(situation);
        let all = own.iter().chain(situation.workspaces.iter());
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in all.filter(|folder| folder.access() == WorkspaceAccess::ReadWrite) {
            if !found.iter().any(|known| known == folder.root()) {
                found.push(folder.root().to_owned());
            }
        }
        found
    }

    fn program_folders(&self) -> Vec<PathBuf> {
        let listed = self.rules.map_or(&[][..], |rules| &rules.program_folders);
        listed.iter().map(|(folder, _)| folder.clone()).collect()
    }

    fn definition_rule(&self, what: &str) -> RuleRef {
        RuleRef { file: DEFINITION.to_owned(), line: 0, id: format!("{}.{what}", self.definition.name()) }
    }
}
