//! Everything a call is judged by, as one immutable value.

use std::collections::BTreeMap;
use std::sync::Arc;

use governance::{Policy, Workspaces};
use guardrail::{Curated, Guard, Known};
use registry::{Tool, ToolRegistry, Whose};
use tool::{Category, Mode, RiskLevel, ToolDefinition};

use crate::host::Host;

/// Registry, policy, curated map and workspaces of one moment. Replaced whole, never changed.
pub struct World {
    /// The tools.
    pub registry: ToolRegistry,
    /// The rules.
    pub policy: Policy,
    /// What calls must have beyond their schemas.
    pub curated: Curated,
    /// The folders callers work in.
    pub workspaces: Workspaces,
    /// Other programs, whose own tools are judged here and run there.
    pub hosts: Vec<Host>,
    /// The keys that tools may send, by name: in words, who gets each and where all it is looked for.
    pub keys: BTreeMap<String, String>,
}

/// Which tools to list.
#[derive(Clone, Debug, Default)]
pub struct ToolFilter {
    /// Only those that may run in this mode.
    pub mode: Option<Mode>,
    /// Only those of this category.
    pub category: Option<Category>,
}

impl World {
    /// The definition behind a name, of a tool of ours or of a host's.
    pub(crate) fn definition(&self, name: &str) -> Option<&ToolDefinition> {
        let ours = self.registry.get(name).map(|tool| &**tool.definition());
        let theirs = || {
            let mut known = self.hosts.iter().flat_map(Host::definitions);
            known.find(|definition| definition.name().as_str() == name).map(|definition| &**definition)
        };
        ours.or_else(theirs)
    }

    /// The definition that a call on record was judged by, had this policy judged it: of the host it came from, or ours.
    pub fn judged_as(&self, name: &str, host: Option<&str>, policy: &Policy) -> Option<&ToolDefinition> {
        let theirs = self.hosts.iter().filter(|known| host == Some(known.name.as_str()));
        let theirs = theirs.flat_map(|host| host.judged(policy)).find(|known| known.name().as_str() == name);
        theirs.or_else(|| self.definition(name).filter(|_| host.is_none()))
    }

    /// Whether the calls of a tool leave the machine. One that is not there may have.
    pub(crate) fn goes_out(&self, name: &str) -> bool {
        self.definition(name).is_none_or(|definition| self.policy.goes_out(definition))
    }

    /// The harm a tool can do. One that is not there can do none.
    pub(crate) fn risk_of(&self, name: &str) -> RiskLevel {
        self.definition(name).map_or(RiskLevel::Low, |definition| self.policy.risk(definition))
    }

    /// Has the tools that are meant let go of what they keep for the next call.
    pub(crate) fn let_go(&self, whose: Whose<'_>, is_meant: impl Fn(&ToolDefinition) -> bool) {
        let meant = self.registry.definitions().filter(|definition| is_meant(definition));
        for tool in meant.filter_map(|definition| self.registry.get(definition.name().as_str())) {
            tool.executor().let_go(whose);
        }
    }

    /// The definitions that pass the filter, by name.
    pub fn tools(&self, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        let wanted = |definition: &&Arc<ToolDefinition>| {
            filter.category.as_ref().is_none_or(|category| definition.category() == category)
                && filter.mode.is_none_or(|mode| self.policy.offers(definition, mode))
        };
        self.registry.definitions().filter(wanted).cloned().collect()
    }

    /// Does something with the guard of this moment's tools and map.
    pub(crate) fn guarded<T>(&self, work: impl FnOnce(&Guard<'_>) -> T) -> T {
        let tools = |name: &str| self.registry.get(name).map(known);
        work(&Guard::new(&self.curated, &tools))
    }
}

/// A tool, as the guardrail sees it.
pub(crate) fn known(tool: &Arc<Tool>) -> Known<'_> {
    Known { definition: tool.definition(), schema: tool.schema() }
}
