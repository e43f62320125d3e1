//! Queries on a policy for the mode monitor and the call counters.

use std::sync::Arc;

use tool::{Mode, RiskLevel, ToolDefinition};

use super::Transitions;
use crate::files::RunningCalls;
use crate::policy::Policy;
use crate::rates::RateLimits;
use crate::standing::Standing;

impl Policy {
    /// Returns the rules that change the mode.
    pub fn transitions(&self) -> Arc<Transitions> {
        Arc::clone(&self.transitions)
    }

    /// Returns the action on entering this mode for running calls that it forbids.
    pub fn running_calls(&self, mode: Mode) -> RunningCalls {
        self.modes.get(mode).running
    }

    /// Returns true if processor, memory and disk are monitored in this mode.
    pub fn watches(&self, mode: Mode) -> bool {
        self.modes.get(mode).watched
    }

    /// Returns the risk level of a tool, by its definition and its category.
    pub fn risk(&self, definition: &ToolDefinition) -> RiskLevel {
        Standing::of(self, definition).risk
    }

    /// Returns the rate limits of a tool and of this mode.
    pub fn rate_limits(&self, definition: &ToolDefinition, mode: Mode) -> RateLimits {
        Standing::of(self, definition).rates(mode).limits()
    }
}
