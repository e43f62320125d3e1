//! What a policy says to those who watch the machine and count its calls.

use std::sync::Arc;

use tool::{Mode, RiskLevel, ToolDefinition};

use super::Transitions;
use crate::files::RunningCalls;
use crate::policy::Policy;
use crate::rates::RateLimits;
use crate::standing::Standing;

impl Policy {
    /// The rules that change the mode.
    pub fn transitions(&self) -> Arc<Transitions> {
        Arc::clone(&self.transitions)
    }

    /// What happens, on entering this mode, to running calls that it forbids.
    pub fn running_calls(&self, mode: Mode) -> RunningCalls {
        self.modes.get(mode).running
    }

    /// Whether processor, memory and disk are watched in this mode.
    pub fn watches(&self, mode: Mode) -> bool {
        self.modes.get(mode).watched
    }

    /// The harm a tool can do, by its definition and its category.
    pub fn risk(&self, definition: &ToolDefinition) -> RiskLevel {
        Standing::of(self, definition).risk
    }

    /// How often a tool may run in an hour, and how often all together in a minute of this mode.
    pub fn rate_limits(&self, definition: &ToolDefinition, mode: Mode) -> RateLimits {
        Standing::of(self, definition).rates(mode).limits()
    }
}
