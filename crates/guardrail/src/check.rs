//! Checks against a tool's schema alone, and the default values that every check fills in.

use std::sync::Arc;

use serde_json::Value;
use tool::{Arguments, Refusal, ToolDefinition};

use crate::curated::Curated;
use crate::guard::{Guard, Known};
use crate::schema::InputSchema;
use crate::{Fitting, ValidCall};

/// Checks arguments against the tool's schema alone and fills in its defaults. Calls in the pipeline are
/// checked by a `Guardrail` instead, which also knows the curated map. A tool with validators is refused,
/// because only the pipeline runs them.
pub fn check(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<ValidCall, Box<Refusal>> {
    fits(definition, schema, arguments)?.settled().map_err(|unseen| unseen.unasked())
}

/// Checks arguments against the tool's schema without running its validators.
pub fn fits(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<Fitting, Box<Refusal>> {
    let (no_entries, no_tools) = (Curated::none(), |_: &str| None);
    let guard = Guard::new(&no_entries, &no_tools);
    guard.check(Known { definition, schema }, arguments).map_err(|rejected| rejected.refusal)
}

/// Arguments with absent ones replaced by an empty object and with defaults filled in.
pub(crate) struct Filled<'d> {
    pub(crate) arguments: Value,
    /// Names of the filled-in defaults, in the order in which they were appended.
    added: Vec<&'d str>,
}

impl<'d> Filled<'d> {
    pub(crate) fn new(definition: &'d ToolDefinition, arguments: Value) -> Self {
        let mut arguments = match arguments {
            Value::Null => Arguments::new(),
            Value::Object(arguments) => arguments,
            other => return Filled { arguments: other, added: Vec::new() },
        };
        let mut added = Vec::new();
        for parameter in definition.parameters() {
            let Some(default) = parameter.default.as_ref().filter(|default| !default.is_null()) else {
                continue;
            };
            if !arguments.contains_key(&parameter.name) {
                arguments.insert(parameter.name.clone(), default.clone());
                added.push(parameter.name.as_str());
            }
        }
        Filled { arguments: Value::Object(arguments), added }
    }

    /// Returns the arguments if they are an object.
    pub(crate) fn into_object(self) -> Result<Arguments, Self> {
        match self.arguments {
            Value::Object(arguments) => Ok(arguments),
            arguments => Err(Filled { arguments, ..self }),
        }
    }

    /// Returns the arguments as the caller sent them.
    pub(crate) fn without_defaults(self) -> Value {
        let mut arguments = self.arguments;
        if let Value::Object(map) = &mut arguments {
            // `remove` swaps in the last entry, so removing from the end keeps the order of the others.
            self.added.iter().rev().for_each(|name| drop(map.remove(*name)));
        }
        arguments
    }
}

#[cfg(test)]
mod tests;
