//! Everything a call is judged by, as one immutable value.

use std::sync::Arc;

use governance::{Policy, Workspaces};
use registry::ToolRegistry;
use tool::{Category, Mode, ToolDefinition};

use crate::host::Host;

/// Registry, policy and workspaces of one moment. Replaced whole, never changed.
pub struct World {
    /// The tools.
    pub registry: ToolRegistry,
    /// The rules.
    pub policy: Policy,
    /// The folders callers work in.
    pub workspaces: Workspaces,
    /// Other programs, whose own tools are judged here and run there.
    pub hosts: Vec<Host>,
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
    /// The definitions that pass the filter, by name.
    pub fn tools(&self, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        let wanted = |definition: &&Arc<ToolDefinition>| {
            filter.category.as_ref().is_none_or(|category| definition.category() == category)
                && filter.mode.is_none_or(|mode| self.policy.offers(definition, mode))
        };
        self.registry.definitions().filter(wanted).cloned().collect()
    }
}
