//! Checked rules of `modes.yaml`, one set for each mode.

use strict_yaml::Located;
use tool::{Category, Mode, RiskLevel, RuleRef};

use crate::modes_file::{ModeEntry, ModesFile, RunningCalls};
use crate::problems::FileInspection;

/// One value for each mode.
#[derive(Clone, Debug, Default)]
pub struct PerMode<T> {
    normal: T,
    alert: T,
    degraded: T,
    lockdown: T,
    recovery: T,
}

impl<T> PerMode<T> {
    /// Returns the value of a mode.
    pub fn get(&self, mode: Mode) -> &T {
        match mode {
            Mode::Normal => &self.normal,
            Mode::Alert => &self.alert,
            Mode::Degraded => &self.degraded,
            Mode::Lockdown => &self.lockdown,
            Mode::Recovery => &self.recovery,
        }
    }

    pub(crate) fn get_mut(&mut self, mode: Mode) -> &mut T {
        match mode {
            Mode::Normal => &mut self.normal,
            Mode::Alert => &mut self.alert,
            Mode::Degraded => &mut self.degraded,
            Mode::Lockdown => &mut self.lockdown,
            Mode::Recovery => &mut self.recovery,
        }
    }
}

/// Rules of one mode.
#[derive(Clone, Debug, Default)]
pub struct ModeRules {
    /// Most concurrent calls.
    pub max_concurrent: Option<(u32, RuleRef)>,
    /// Allowed categories; empty means all.
    pub categories: Vec<(Category, RuleRef)>,
    /// Calls that require approval.
    pub approvals: Vec<(ApprovalScope, RuleRef)>,
    /// Action on entering the mode for running calls that it forbids.
    pub running_calls: RunningCalls,
    /// True if processor, memory and disk are monitored.
    pub monitored: bool,
}

/// Calls that require approval in a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalScope {
    /// Calls of high risk.
    HighRisk,
    /// Calls that may change something.
    Writes,
    /// Outbound calls.
    Network,
    /// All calls.
    Everything,
    /// Calls of tools of this category.
    Category(Category),
    /// Word that is none of the above; `check_tools` checks it against the registry.
    Tool(String),
}

/// Properties of a call that decide whether it requires approval.
pub(crate) struct ApprovalSubject<'a> {
    pub(crate) tool: &'a str,
    pub(crate) category: &'a Category,
    pub(crate) risk: RiskLevel,
    pub(crate) writes: bool,
    pub(crate) is_outbound: bool,
}

impl ApprovalScope {
    pub(crate) fn applies(&self, subject: &ApprovalSubject<'_>) -> bool {
        match self {
            ApprovalScope::HighRisk => subject.risk == RiskLevel::High,
            ApprovalScope::Writes => subject.writes,
            ApprovalScope::Network => subject.is_outbound,
            ApprovalScope::Everything => true,
            ApprovalScope::Category(category) => category == subject.category,
            ApprovalScope::Tool(name) => name == subject.tool,
        }
    }
}

impl std::fmt::Display for ApprovalScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ApprovalScope::HighRisk => "high_risk_tools",
            ApprovalScope::Writes => "any_write_operation",
            ApprovalScope::Network => "network",
            ApprovalScope::Everything => "all_actions",
            ApprovalScope::Category(category) => category.as_str(),
            ApprovalScope::Tool(name) => name,
        })
    }
}

/// Words of `require_approval_for` that are neither a category nor a tool.
const APPROVAL_WORDS: [&str; 4] = ["high_risk_tools", "any_write_operation", "network", "all_actions"];

/// Checks the file and replaces the built-in rules of the modes it lists.
pub(crate) fn check(
    file: &ModesFile,
    categories: &[Category],
    rules: &mut PerMode<ModeRules>,
    inspection: &mut FileInspection<'_>,
) {
    for (key, entry) in file.modes.iter() {
        if let Some(mode) = inspection.parse_mode(key) {
            *rules.get_mut(mode) = check_mode(mode, entry, categories, inspection);
        }
    }
}

fn check_mode(
    mode: Mode,
    entry: &ModeEntry,
    known: &[Category],
    inspection: &mut FileInspection<'_>,
) -> ModeRules {
    let max_concurrent = entry
        .max_concurrent_tasks
        .as_ref()
        .map(|number| (number.value, inspection.rule_ref(number, format!("{mode}.max_concurrent_tasks"))));
    let mut categories = Vec::new();
    for word in &entry.allowed_tool_categories {
        if let Some(category) = find_category(word, known, inspection) {
            categories.push((category, inspection.rule_ref(word, format!("{mode}.allowed_tool_categories"))));
        }
    }
    let mut approvals = Vec::new();
    for word in &entry.require_approval_for {
        let rule = inspection.rule_ref(word, format!("{mode}.require_approval_for"));
        approvals.push((parse_approval_scope(word, known), rule));
    }
    let running_calls = entry.on_transition.running.unwrap_or(match mode {
        Mode::Lockdown => RunningCalls::Cancel,
        Mode::Normal | Mode::Alert | Mode::Degraded | Mode::Recovery => RunningCalls::Finish,
    });
    let monitored = entry.background_monitoring_enabled.unwrap_or(true);
    ModeRules { max_concurrent, categories, approvals, running_calls, monitored }
}

pub(crate) fn parse_approval_scope(word: &Located<String>, known: &[Category]) -> ApprovalScope {
    match word.as_str() {
        "high_risk_tools" => ApprovalScope::HighRisk,
        "any_write_operation" => ApprovalScope::Writes,
        "network" => ApprovalScope::Network,
        "all_actions" => ApprovalScope::Everything,
        other => match known.iter().find(|category| category.as_str() == other) {
            Some(category) => ApprovalScope::Category(category.clone()),
            None => ApprovalScope::Tool(other.to_ascii_lowercase()),
        },
    }
}

/// Returns the words that `require_approval_for` accepts besides tools, for suggestions.
pub(crate) fn approval_words(known: &[Category]) -> impl Iterator<Item = &str> {
    APPROVAL_WORDS.into_iter().chain(known.iter().map(Category::as_str))
}

/// Returns the category with this name, built in or declared in `tools.yaml`. Reports an error if there is
/// none.
pub(crate) fn find_category(
    word: &Located<String>,
    known: &[Category],
    inspection: &mut FileInspection<'_>,
) -> Option<Category> {
    let found = known.iter().find(|category| category.as_str() == word.as_str()).cloned();
    if found.is_none() {
        let words: Vec<&str> = known.iter().map(Category::as_str).collect();
        let suggestion = match tool::text::nearest_word(word, words.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "the known categories are {}; declare others under `tool_categories` in tools.yaml",
                words.join(", ")
            ),
        };
        inspection.error(word, &format!("unknown category `{}`", word.value), Some(suggestion));
    }
    found
}
