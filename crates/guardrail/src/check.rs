//! The check itself: arguments in, a valid call or one refusal out.

use std::sync::Arc;

use serde_json::Value;
use tool::{Arguments, Refusal, ToolDefinition};

use crate::findings::Findings;
use crate::refusal::refusal;
use crate::schema::InputSchema;
use crate::{ValidCall, problem};

/// Checks arguments against the tool's schema and fills in its defaults.
pub fn check(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<ValidCall, Box<Refusal>> {
    let filled = with_defaults(definition, arguments);
    let findings = Findings::of(definition, schema, &filled);
    let findings = match filled {
        Value::Object(arguments) if findings.is_empty() => {
            return Ok(ValidCall::new(Arc::clone(definition), arguments));
        }
        Value::Object(_) => findings,
        other => Findings::stated(problem::not_an_object(definition, &other)),
    };
    Err(Box::new(refusal(definition, schema, findings)))
}

/// The arguments as they are judged: none at all is an empty object, and what has a default is there.
pub(crate) fn with_defaults(definition: &ToolDefinition, arguments: Value) -> Value {
    let mut arguments = match arguments {
        Value::Null => Arguments::new(),
        Value::Object(arguments) => arguments,
        other => return other,
    };
    for parameter in definition.parameters() {
        let Some(default) = parameter.default.as_ref().filter(|default| !default.is_null()) else { continue };
        arguments.entry(&parameter.name).or_insert_with(|| default.clone());
    }
    Value::Object(arguments)
}

#[cfg(test)]
mod tests;
