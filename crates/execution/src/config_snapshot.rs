//! Immutable snapshot of the configuration that calls are judged by.

use std::collections::BTreeMap;
use std::sync::Arc;

use governance::{Policy, Workspaces};
use guardrail::{CuratedGuardrails, Guardrail, KnownTool};
use registry::{CacheScope, Tool, ToolRegistry};
use serde::Serialize;
use tool::{Category, Mode, RiskLevel, ToolDefinition};

use crate::host::Host;

/// Registry, policy, curated map and workspaces at one time. A reload replaces the whole snapshot.
pub struct ConfigSnapshot {
    /// Registered tools.
    pub registry: ToolRegistry,
    /// Policy rules.
    pub policy: Policy,
    /// Requirements on calls beyond their schemas.
    pub curated: Arc<CuratedGuardrails>,
    /// Folders in which callers work.
    pub workspaces: Workspaces,
    /// Host programs whose own tools are judged here and run by the host.
    pub hosts: Arc<[Host]>,
    /// Keys that tools may send, by name, each with a description of its recipient and its sources.
    pub keys: BTreeMap<String, String>,
    /// Manifests, tools and project policies that could not be loaded. The rest of the configuration is in effect.
    pub problems: Vec<ManifestProblem>,
}

/// Manifest, tool of a manifest or project policy that could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ManifestProblem {
    /// Its file.
    pub file: String,
    /// Line in the file; 0 if the problem has none.
    pub line: u64,
    /// Diagnostic code, `tool_skipped`, or `project_denied` for the policy of a project that is denied as a whole.
    pub code: String,
    /// Description of the problem.
    pub message: String,
}

/// Filter for the tool list.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    /// Only tools that may run in this mode.
    pub mode: Option<Mode>,
    /// Only tools of this category.
    pub category: Option<Category>,
}

impl ConfigSnapshot {
    /// Returns the definition of a Sinew tool or a host tool.
    pub(crate) fn definition(&self, name: &str) -> Option<&ToolDefinition> {
        let own_definition = self.registry.get(name).map(|tool| &**tool.definition());
        let host_definition = || {
            let mut known = self.hosts.iter().flat_map(|host| host.judged_definitions(&self.policy));
            known.find(|definition| definition.name().as_str() == name)
        };
        own_definition.or_else(host_definition)
    }

    /// Returns the definition by which this policy would judge a recorded call: of the host it came from, or
    /// of a Sinew tool.
    pub fn definition_judged_as(
        &self,
        name: &str,
        host: Option<&str>,
        policy: &Policy,
    ) -> Option<&ToolDefinition> {
        let host_definition = self.hosts.iter().filter(|known| host == Some(known.name.as_str()));
        let host_definition = host_definition
            .flat_map(|host| host.judged_definitions(policy))
            .find(|known| known.name().as_str() == name);
        host_definition.or_else(|| self.definition(name).filter(|_| host.is_none()))
    }

    /// Returns true if calls of the tool leave the machine. An unknown tool counts as outbound.
    pub(crate) fn is_outbound(&self, name: &str) -> bool {
        self.definition(name).is_none_or(|definition| self.policy.is_outbound(definition))
    }

    /// Risk level of a tool. An unknown tool counts as low risk.
    pub(crate) fn risk_of(&self, name: &str) -> RiskLevel {
        self.definition(name).map_or(RiskLevel::Low, |definition| self.policy.risk_level(definition))
    }

    /// Makes the selected tools release what they keep for the next call, such as an idle process.
    pub(crate) fn release_resources(
        &self,
        owner: CacheScope<'_>,
        is_meant: impl Fn(&ToolDefinition) -> bool,
    ) {
        for tool in self.registry.all_versions().filter(|tool| is_meant(tool.definition())) {
            tool.executor().release(owner);
        }
    }

    /// Definitions that pass the filter, by name.
    pub fn tools(&self, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        let wanted = |definition: &&Arc<ToolDefinition>| {
            filter.category.as_ref().is_none_or(|category| definition.category() == category)
                && filter.mode.is_none_or(|mode| self.policy.may_run(definition, mode))
        };
        self.registry.definitions().filter(wanted).cloned().collect()
    }

    /// Runs `work` with a guard for the tools and the curated map of this snapshot.
    pub(crate) fn with_guard<T>(&self, work: impl FnOnce(&Guardrail<'_>) -> T) -> T {
        let tools = |name: &str| self.registry.get(name).map(known_tool);
        work(&Guardrail::new(&self.curated, &tools))
    }
}

/// Definition and schema of a tool, in the form the guardrail takes.
pub(crate) fn known_tool(tool: &Arc<Tool>) -> KnownTool<'_> {
    KnownTool { definition: tool.definition(), schema: tool.schema() }
}
