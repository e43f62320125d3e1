//! Advice after a failure: if a tool fails because of its arguments, its failure gets an example of a valid
//! call.

use serde_json::{Map, Value};
use telemetry::{CallContext, TelemetryEvent, emit};
use tool::{Failure, ToolDefinition};

use crate::call::PipelineCall;
use crate::config_snapshot;

/// Adds an example to a failure that blames the arguments. Any other failure is returned unchanged.
pub(crate) fn with_example(
    call: &PipelineCall,
    subject: CallContext<'_>,
    definition: &ToolDefinition,
    failure: Failure,
) -> Failure {
    if !guardrail::blames_arguments(&failure) {
        return failure;
    }
    let registry = &call.snapshot.registry;
    let example = registry.tool_of(definition).and_then(|tool| {
        call.snapshot.with_guard(|guard| guard.example_for(config_snapshot::known_tool(tool)))
    });
    // A tool without arguments has an empty example, which does not help.
    let is_empty = |example: &Value| example.as_object().is_some_and(Map::is_empty);
    let Some(example) = example.filter(|example| !is_empty(example)) else { return failure };
    emit(TelemetryEvent::ToolValidationNudge { call: subject, error: &failure.message });
    let advice = format!("Example: {example}");
    let hint = match &failure.hint {
        Some(hint) => format!("{hint}; {advice}"),
        None => advice,
    };
    failure.with_hint(hint)
}
