//! What a policy offers: the view of it that lists tools, without a call in hand.

use tool::{Mode, ToolDefinition};

use crate::policy::Policy;
use crate::standing::Standing;

impl Policy {
    /// Whether some call of this tool could run in this mode, a human's consent included.
    pub fn offers(&self, definition: &ToolDefinition, mode: Mode) -> bool {
        Standing::of(self, definition).may_run_in(mode)
    }
}
