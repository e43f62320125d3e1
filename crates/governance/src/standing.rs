//! Effective policy of one tool: its entry in the policy file, and its definition for everything the file
//! does not set.

mod admission;
mod asking;
mod bounds;

use std::sync::Arc;

use tool::{Category, Outward, RiskLevel, RuleRef, ToolDefinition};

use crate::cleared::Guard;
use crate::command_rules::CommandRules;
use crate::errands::Errands;
use crate::glob::PathGlobs;
use crate::grounds::Grounds;
use crate::host_rules::Outbound;
use crate::policy::Policy;
use crate::situation::Situation;
use crate::tool_rules::{CategoryRules, ToolRules, WayOut};
use crate::trail::Notes;

pub use asking::{Access, Attendance};

/// File name in a rule that comes from the tool's definition.
const DEFINITION: &str = "tool definition";

/// Tool and the rules that apply to it.
pub struct Standing<'a> {
    /// Policy.
    pub policy: &'a Policy,
    /// Definition of the tool.
    pub definition: &'a ToolDefinition,
    /// Entry of the tool in `tools.yaml`, if it has one.
    pub rules: Option<&'a ToolRules>,
    category: &'a Category,
    category_rules: Option<&'a CategoryRules>,
    /// Risk level, by its definition and its category.
    pub risk: RiskLevel,
    goes_out: bool,
}

impl<'a> Standing<'a> {
    /// Returns the effective policy of a tool.
    pub fn of(policy: &'a Policy, definition: &'a ToolDefinition) -> Self {
        let rules = policy.tools.get(definition.name());
        let category = rules.and_then(|rules| rules.category.as_ref()).unwrap_or(definition.category());
        let category_rules = policy.categories.get(category);
        let least = category_rules.and_then(|category| category.risk);
        let risk = least.map_or(definition.risk_level(), |least| least.max(definition.risk_level()));
        let goes_out = *category == Category::NETWORK
            || definition.outward_arguments().iter().any(|argument| argument.kind == Outward::Url)
            || category_rules.is_some_and(|category| category.way_out == WayOut::Gateway);
        Standing { policy, definition, rules, category, category_rules, risk, goes_out }
    }

    /// Returns true if its calls are outbound, by its declared arguments or its category.
    pub fn goes_out(&self) -> bool {
        self.goes_out
    }

    /// Returns true if it may change what it reaches: it writes to a path, or starts a program, which may do
    /// anything.
    pub fn changes_things(&self) -> bool {
        let (paths, outward) = (self.definition.path_arguments(), self.definition.outward_arguments());
        *self.category == Category::SYSTEM_WRITE
            || paths.iter().any(|path| path.access.changes())
            || outward.iter().any(|argument| argument.kind == Outward::Command)
    }

    /// Checks the commands and hosts that a call names.
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

    /// Paths forbidden to the tool: by its own entry and by the list for every tool.
    pub fn forbidden_paths(&self) -> &'a Arc<PathGlobs> {
        self.rules.map_or(self.policy.common.globs(), |rules| &rules.forbidden_paths)
    }

    /// Returns the forbidding rules, for files with several hard links.
    pub(crate) fn guard(&self, situation: &Situation<'_>) -> Guard {
        let stated = self.in_earnest();
        let forbidden = stated.as_ref().unwrap_or(self).forbidden_paths();
        Guard {
            floor: Arc::clone(&self.policy.floor),
            forbidden: Arc::clone(forbidden),
            workspaces: situation.workspaces.clone(),
        }
    }

    fn outbound(&self) -> Outbound {
        let own = self.rules.and_then(|rules| rules.hosts.clone());
        Outbound { own, gateway: Arc::clone(&self.policy.safety.gateway) }
    }

    /// Returns the effective policy with the shadow rules enforced, if there are any.
    pub(crate) fn in_earnest(&self) -> Option<Standing<'a>> {
        let shadow = self.rules?.shadow.as_deref()?;
        Some(Standing { rules: Some(shadow), ..*self })
    }

    fn definition_rule(&self, what: &str) -> RuleRef {
        RuleRef { file: DEFINITION.into(), line: 0, id: format!("{}.{what}", self.definition.name()).into() }
    }
}
