//! Counts the ends of calls for the mode rules; called by the recorder.

use tool::{Failure, Refusal, ToolDefinition};

use super::ends::{self, RefusedCall};
use crate::call::Call;
use crate::layer::ToolExecutionLayer;

impl ToolExecutionLayer {
    /// Counts a refused call.
    pub(crate) fn count_refused(&self, call: &Call, refusal: &Refusal) {
        let refused = RefusedCall {
            code: refusal.code,
            detail: refusal.detail.as_deref(),
            tool: &refusal.tool,
            connection: call.caller.connection,
            risk: call.world.risk_of(&refusal.tool),
        };
        refused.counted().for_each(|what| self.watch.count(what));
    }

    /// Counts a call that was started and has ended.
    pub(crate) fn count_ended<T>(&self, call: &Call, definition: &ToolDefinition, end: &Result<T, Failure>) {
        let risk = call.world.policy.risk(definition);
        ends::ended(end, risk).for_each(|what| self.watch.count(what));
    }
}
