//! Counts the ends of calls for the mode rules; called by the recorder.

use tool::{Failure, Refusal, ToolDefinition};

use super::call_events::{self, RefusedCall};
use crate::call::PipelineCall;
use crate::layer::ToolExecutionLayer;

impl ToolExecutionLayer {
    /// Counts a refused call.
    pub(crate) fn count_refused(&self, call: &PipelineCall, refusal: &Refusal) {
        let refused = RefusedCall {
            code: refusal.code,
            detail: refusal.detail.as_deref(),
            tool: &refusal.tool,
            connection: call.caller.connection,
            risk: call.snapshot.risk_of(&refusal.tool),
        };
        refused.events().for_each(|what| self.mode_watch.count(what));
    }

    /// Counts a call that was started and has ended.
    pub(crate) fn count_ended<T>(
        &self,
        call: &PipelineCall,
        definition: &ToolDefinition,
        end: &Result<T, Failure>,
    ) {
        let risk = call.snapshot.policy.risk_level(definition);
        call_events::end_events(end, risk).for_each(|what| self.mode_watch.count(what));
    }
}
