//! Effective policy of one tool: its entry in the policy file, and its definition for everything the file
//! does not set.

mod admission;
mod approval;
mod limits;

use std::path::Path;
use std::sync::Arc;

use tool::definition::ExternalTargetKind;
use tool::{Category, RiskLevel, RuleRef, ToolDefinition};

use crate::command_rules::CommandRules;
use crate::denial_reason::DenialReason;
use crate::external_targets::ExternalTargets;
use crate::glob::PathGlobs;
use crate::host_rules::OutboundRules;
use crate::path_list::PathList;
use crate::policy::Policy;
use crate::prechecked::HardLinkSearchScope;
use crate::project::ProjectRules;
use crate::rule_trace::TraceRecorder;
use crate::situation::Situation;
use crate::tool_rules::{CategoryRules, OutboundRoute, ToolRules};

pub use approval::{Access, ToolApprovals};

/// File name in a rule that comes from the tool's definition.
const DEFINITION_FILE: &str = "tool definition";

/// Tool and the rules that apply to it.
pub struct EffectivePolicy<'a> {
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
    is_outbound: bool,
}

impl<'a> EffectivePolicy<'a> {
    /// Returns the effective policy of a tool.
    pub fn new(policy: &'a Policy, definition: &'a ToolDefinition) -> Self {
        let rules = policy.tools.get(definition.name());
        let category = rules.and_then(|rules| rules.category.as_ref()).unwrap_or(definition.category());
        let category_rules = policy.categories.get(category);
        let least = category_rules.and_then(|category| category.risk);
        let risk = least.map_or(definition.risk_level(), |least| least.max(definition.risk_level()));
        let is_outbound = *category == Category::NETWORK
            || definition
                .external_target_arguments()
                .iter()
                .any(|argument| argument.kind == ExternalTargetKind::Url)
            || category_rules.is_some_and(|category| category.outbound_route == OutboundRoute::Gateway);
        EffectivePolicy { policy, definition, rules, category, category_rules, risk, is_outbound }
    }

    /// Returns the policy of the tool with the rules of the project at `root`, if it has any. They apply to calls
    /// that concern the project, in addition to those of the home.
    pub fn in_project(&self, root: &Path) -> Option<EffectivePolicy<'a>> {
        Some(self.project_at(root)?.effective_policy(self))
    }

    /// Returns the paths that the tool may write to in the project at `root`: its own list there, else the write
    /// scope of the project. `None` means the whole project.
    pub fn project_write_paths(&self, root: &Path) -> Option<&'a PathList> {
        self.project_at(root)?.write_paths(self.definition)
    }

    fn project_at(&self, root: &Path) -> Option<&'a ProjectRules> {
        self.policy.projects.iter().find(|project| project.root() == root)
    }

    /// Returns true if its calls are outbound, by its declared arguments or its category.
    pub fn is_outbound(&self) -> bool {
        self.is_outbound
    }

    /// Returns true if it may change what it reaches: it writes to a path, or starts a program, which may do
    /// anything.
    pub fn may_change_files(&self) -> bool {
        let (paths, outward) =
            (self.definition.path_arguments(), self.definition.external_target_arguments());
        *self.category == Category::SYSTEM_WRITE
            || paths.iter().any(|path| path.access.is_modifying())
            || outward.iter().any(|argument| argument.kind == ExternalTargetKind::Command)
    }

    /// Checks the commands and hosts that a call names.
    pub(crate) fn admit_external_targets(
        &self,
        external_targets: &ExternalTargets,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<(), DenialReason> {
        let none = CommandRules::deny_all();
        let commands = self.rules.map_or(&none, |rules| &rules.commands);
        for command in &external_targets.commands {
            commands.check(command, notes)?;
        }
        if !self.is_outbound() {
            return Ok(());
        }
        let outbound = self.outbound();
        external_targets.network_targets.iter().try_for_each(|target| outbound.check(target, notes))
    }

    /// Returns the paths that are forbidden to the tool, by its own entry or by the list for every tool.
    pub fn forbidden_paths(&self) -> &'a Arc<PathGlobs> {
        self.rules.map_or(self.policy.common.globs(), |rules| &rules.forbidden_paths)
    }

    /// Returns the forbidding rules, for files with several hard links.
    pub(crate) fn guard(&self, situation: &Situation<'_>) -> HardLinkSearchScope {
        let forbidden = |policy: &EffectivePolicy<'a>| {
            Arc::clone(policy.with_shadow_rules().as_ref().unwrap_or(policy).forbidden_paths())
        };
        let stricter = self.stricter();
        HardLinkSearchScope {
            built_in_denials: Arc::clone(&self.policy.built_in_denials),
            forbidden_paths: [Some(self), stricter.as_ref()].into_iter().flatten().map(forbidden).collect(),
            workspaces: situation.workspaces.clone(),
        }
    }

    pub(crate) fn outbound(&self) -> OutboundRules {
        let own = self.rules.and_then(|rules| rules.hosts.clone());
        OutboundRules { tool_hosts: own, gateway: Arc::clone(&self.policy.safety.gateway) }
    }

    /// Returns the policy of the same tool with other rules of its own.
    pub(crate) fn with_rules(&self, rules: &'a ToolRules) -> EffectivePolicy<'a> {
        EffectivePolicy { rules: Some(rules), ..*self }
    }

    /// Returns the effective policy with the shadow rules enforced, if there are any.
    pub(crate) fn with_shadow_rules(&self) -> Option<EffectivePolicy<'a>> {
        let shadow = self.rules?.shadow.as_deref()?;
        Some(EffectivePolicy { rules: Some(shadow), ..*self })
    }

    fn definition_rule(&self, what: &str) -> RuleRef {
        RuleRef {
            file: DEFINITION_FILE.into(),
            line: 0,
            id: format!("{}.{what}", self.definition.name()).into(),
        }
    }
}
