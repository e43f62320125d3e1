//! Checks against a tool's schema alone, and the default values that every check fills in.

use std::sync::Arc;

use serde_json::Value;
use tool::{Arguments, Refusal, ToolDefinition};

use crate::curated::CuratedGuardrails;
use crate::guardrail::{Guardrail, KnownTool};
use crate::schema::InputSchema;
use crate::{SchemaCheckedCall, ValidCall};

/// Checks arguments against the tool's schema alone and fills in its defaults. Calls in the pipeline are
/// checked by a `Guardrail` instead, which also knows the curated map. A tool with validators is refused,
/// because only the pipeline runs them.
pub fn check(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<ValidCall, Box<Refusal>> {
    check_schema(definition, schema, arguments)?
        .without_validators()
        .map_err(|with_validators| with_validators.validators_unavailable())
}

/// Checks arguments against the tool's schema without running its validators.
pub fn check_schema(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<SchemaCheckedCall, Box<Refusal>> {
    let (no_entries, no_tools) = (CuratedGuardrails::empty(), |_: &str| None);
    let guard = Guardrail::new(&no_entries, &no_tools);
    guard.check(KnownTool { definition, schema }, arguments).map_err(|rejected| rejected.refusal)
}

/// Arguments with absent ones replaced by an empty object and with defaults filled in.
pub(crate) struct FilledArguments<'d> {
    pub(crate) arguments: Value,
    /// Names of the filled-in defaults, in the order in which they were appended.
    added: Vec<&'d str>,
}

impl<'d> FilledArguments<'d> {
    pub(crate) fn new(definition: &'d ToolDefinition, arguments: Value) -> Self {
        let mut arguments = match arguments {
            Value::Null => Arguments::new(),
            Value::Object(arguments) => arguments,
            other => return FilledArguments { arguments: other, added: Vec::new() },
        };
        drop_optional_nulls(definition, &mut arguments);
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
        FilledArguments { arguments: Value::Object(arguments), added }
    }

    /// Returns the arguments if they are an object.
    pub(crate) fn into_object(self) -> Result<Arguments, Self> {
        match self.arguments {
            Value::Object(arguments) => Ok(arguments),
            arguments => Err(FilledArguments { arguments, ..self }),
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

/// Removes null for an optional argument, which clients send for an absent one. A schema that accepts null may
/// give it a meaning, so there it stays.
fn drop_optional_nulls(definition: &ToolDefinition, arguments: &mut Arguments) {
    if !arguments.values().any(Value::is_null) {
        return;
    }
    let optional = |name: &str| {
        definition.parameters().iter().any(|parameter| parameter.name == name && !parameter.is_required())
    };
    let properties = &definition.input_schema()["properties"];
    arguments.retain(|name, value| {
        !value.is_null() || !optional(name) || properties.get(name).is_none_or(accepts_null)
    });
}

/// Returns true if a schema lists null or sets no bounds. The target of a reference is not searched.
fn accepts_null(schema: &Value) -> bool {
    const BOUNDS: [&str; 8] = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"];
    let lists_null = |key: &str, null: &Value| match schema.get(key) {
        Some(Value::Array(values)) => values.contains(null),
        Some(value) => value == null,
        None => false,
    };
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    !BOUNDS.iter().any(|key| schema.get(key).is_some())
        || lists_null("type", &Value::from("null"))
        || lists_null("enum", &Value::Null)
        || lists_null("const", &Value::Null)
        || alternatives.into_iter().any(accepts_null)
}

#[cfg(test)]
mod tests;
