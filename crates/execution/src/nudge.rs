//! Advice after a failure: if a tool fails because of its arguments, its failure gets an example of a valid
//! call.

use telemetry::{Event, Subject, emit};
use tool::{Failure, ToolDefinition};

use crate::call::Call;
use crate::world;

/// Adds an example to a failure that blames the arguments. Any other failure is returned unchanged.
pub(crate) fn advised(
    call: &Call,
    subject: Subject<'_>,
    definition: &ToolDefinition,
    failure: Failure,
) -> Failure {
    if !guardrail::blames_arguments(&failure) {
        return failure;
    }
    let registry = &call.world.registry;
    let example = registry
        .get(definition.name().as_str())
        .and_then(|tool| call.world.guarded(|guard| guard.example(world::known(tool))));
    let Some(example) = example else { return failure };
    emit(Event::ToolValidationNudge { call: subject, error: &failure.message });
    let advice = format!("Example: {example}");
    let hint = match &failure.hint {
        Some(hint) => format!("{hint}; {advice}"),
        None => advice,
    };
    failure.hint(hint)
}
