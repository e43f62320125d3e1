//! Advice after the fact: a tool that failed because of its arguments, which no check foresaw, comes back with an
//! example of a call that is accepted.

use telemetry::{Event, Subject, emit};
use tool::{Failure, ToolDefinition};

use crate::call::Call;
use crate::world;

/// The failure, with an example where it complains of the arguments and there is one. Anything else stays as it is.
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
