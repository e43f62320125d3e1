//! Compiled input schema of a tool, with bounds: a hostile schema costs little and reaches no network.

mod cost;
mod graph;

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::guidance::ToolGuidance;
use crate::validators::Validators;

/// Maximum depth of a schema. Hand-written schemas are flatter, and validators recurse.
const MAX_DEPTH: usize = 64;
/// Maximum number of values in a schema, enum values included.
const MAX_VALUES: usize = 100_000;
/// Maximum memory of a compiled pattern in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Maximum number of characters of an error message, which may quote the value.
const MAX_ERROR_CHARS: usize = 300;
/// Format of an argument that is a list of `{tool_slug, arguments}`.
const CALLS_FORMAT: &str = "calls";
/// Supported dialects, by the URI under which a schema declares them.
const DIALECTS: [(&str, Draft); 5] = [
    ("json-schema.org/draft/2020-12/schema", Draft::Draft202012),
    ("json-schema.org/draft/2019-09/schema", Draft::Draft201909),
    ("json-schema.org/draft-07/schema", Draft::Draft7),
    ("json-schema.org/draft-06/schema", Draft::Draft6),
    ("json-schema.org/draft-04/schema", Draft::Draft4),
];

/// A compiled JSON Schema (2020-12, or the older draft it declares).
#[derive(Debug)]
pub struct InputSchema {
    validator: Validator,
    /// Arguments that hold calls of other tools.
    call_fields: Vec<String>,
    /// Validators of the tool, which run after the schema check.
    validators: Option<Arc<Validators>>,
    /// Guidance on known mistakes.
    guidance: Option<Arc<ToolGuidance>>,
}

impl InputSchema {
    /// Compiles a schema. References outside it are refused, patterns run in linear time, and a schema whose
    /// evaluation could take unbounded time is an error.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if depth_exceeds(schema, MAX_DEPTH) {
            return Err(SchemaError::TooDeep);
        }
        if budget_after_values(schema, MAX_VALUES).is_none() {
            return Err(SchemaError::TooLarge);
        }
        let draft = declared_dialect(schema)?;
        cost::check(schema)?;
        let patterns =
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
        let options = jsonschema::options().offline().with_draft(draft).with_pattern_options(patterns);
        let validator = options.build(schema).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        let properties = schema["properties"].as_object().into_iter().flatten();
        let calls = properties.filter(|(_, property)| property["format"] == CALLS_FORMAT);
        let calls = calls.map(|(name, _)| name.clone()).collect();
        Ok(InputSchema { validator, call_fields: calls, validators: None, guidance: None })
    }

    /// Adds the tool's validators. No call of the tool is valid before they have run.
    pub fn with_validators(self, validators: Arc<Validators>) -> Self {
        InputSchema { validators: Some(validators), ..self }
    }

    /// Adds guidance to include in refusals.
    pub fn with_guidance(self, tool_guidance: Arc<ToolGuidance>) -> Self {
        InputSchema { guidance: Some(tool_guidance), ..self }
    }

    /// Returns the first error of a value as one short line. For values that are not call arguments, such as
    /// results.
    pub fn first_error(&self, value: &Value) -> Option<String> {
        let error = self.validator.iter_errors(value).next()?;
        let (at, message) = (error.instance_path().to_string(), error.to_string());
        let message: String =
            tool::text::escape_invisible_line(&message).chars().take(MAX_ERROR_CHARS).collect();
        Some(if at.is_empty() { message } else { format!("at {at}: {message}") })
    }

    pub(crate) fn validators(&self) -> Option<&Arc<Validators>> {
        self.validators.as_ref()
    }

    pub(crate) fn guidance(&self) -> Option<&ToolGuidance> {
        self.guidance.as_deref()
    }

    /// Returns the arguments that contain calls of other tools, which have the format `calls`.
    pub(crate) fn call_fields(&self) -> &[String] {
        &self.call_fields
    }

    pub(crate) fn validator(&self) -> &Validator {
        &self.validator
    }
}

/// Returns the declared dialect, or the newest if none is declared. An unknown dialect is refused, because
/// its keywords may mean anything.
fn declared_dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(declared) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let address = declared.as_str().map(|address| address.trim_end_matches('#'));
    let address = address.and_then(|it| it.strip_prefix("https://").or_else(|| it.strip_prefix("http://")));
    let known = DIALECTS.iter().find(|(known, _)| address == Some(known));
    known.map(|(_, draft)| *draft).ok_or_else(|| SchemaError::UnknownDialect(shorten_declared(declared)))
}

fn shorten_declared(declared: &Value) -> String {
    tool::text::shorten(&declared.to_string(), tool::text::MAX_QUOTED_CHARS).into_owned()
}

fn depth_exceeds(value: &Value, remaining: usize) -> bool {
    let deeper = |child: &Value| remaining == 0 || depth_exceeds(child, remaining - 1);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(map) => map.values().any(deeper),
        _ => false,
    }
}

/// Returns the rest of the budget `left` after counting every value, or `None` once it is exceeded.
fn budget_after_values(value: &Value, remaining: usize) -> Option<usize> {
    let remaining = remaining.checked_sub(1)?;
    match value {
        Value::Array(items) => {
            items.iter().try_fold(remaining, |remaining, item| budget_after_values(item, remaining))
        }
        Value::Object(map) => {
            map.values().try_fold(remaining, |remaining, child| budget_after_values(child, remaining))
        }
        _ => Some(remaining),
    }
}

/// Reason why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema is nested too deeply.
    #[error("the input schema is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The schema has too many values.
    #[error("the input schema has more than {MAX_VALUES} values")]
    TooLarge,
    /// The schema refers to itself without descending into a value.
    #[error("the input schema refers to itself in a loop that never reaches a value")]
    Loop,
    /// The references of the schema multiply, or it has too many subschemas.
    #[error(
        "the input schema is too expensive to evaluate: its references may apply more than {} subschemas to one value, \
         or it has more than {} subschemas",
        cost::MAX_COST,
        graph::MAX_SUBSCHEMAS
    )]
    TooExpensive,
    /// The schema declares an unknown dialect.
    #[error(
        "the input schema declares the dialect {0}; supported are the drafts 4, 6, 7, 2019-09 and 2020-12"
    )]
    UnknownDialect(String),
    /// The value is not a valid schema, or refers to something outside itself.
    #[error("the input schema cannot be used: {0}")]
    Invalid(String),
}

#[cfg(test)]
mod tests;
