//! A tool's input schema, compiled once and bounded: a hostile schema costs little and reaches no network.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Deeper schemas are refused: nobody writes them by hand, and validators recurse.
const DEEPEST: usize = 64;
/// A compiled pattern may not need more memory than this.
const LARGEST_PATTERN: usize = 1 << 20;

/// The format of an argument that is a list of `{tool_slug, arguments}`.
const CALLS: &str = "calls";

/// A compiled JSON Schema (2020-12, or the older draft it declares).
#[derive(Debug)]
pub struct InputSchema {
    validator: Validator,
    /// The arguments that hold calls of other tools.
    calls: Vec<String>,
}

impl InputSchema {
    /// Compiles a schema. References outside it are refused, and patterns run in linear time.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if depth_exceeds(schema, DEEPEST) {
            return Err(SchemaError::TooDeep);
        }
        let patterns = PatternOptions::regex().size_limit(LARGEST_PATTERN).dfa_size_limit(LARGEST_PATTERN);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let validator = options.build(schema).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        let properties = schema["properties"].as_object().into_iter().flatten();
        let calls = properties.filter(|(_, property)| property["format"] == CALLS);
        Ok(InputSchema { validator, calls: calls.map(|(name, _)| name.clone()).collect() })
    }

    /// The arguments that hold calls of other tools: those of the format `calls`.
    pub(crate) fn calls(&self) -> &[String] {
        &self.calls
    }

    pub(crate) fn validator(&self) -> &Validator {
        &self.validator
    }
}

fn depth_exceeds(value: &Value, left: usize) -> bool {
    let deeper = |child: &Value| left == 0 || depth_exceeds(child, left - 1);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(map) => map.values().any(deeper),
        _ => false,
    }
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It nests too deeply.
    #[error("the input schema is nested deeper than {DEEPEST} levels")]
    TooDeep,
    /// It is not a schema, or refers to something outside itself.
    #[error("the input schema cannot be used: {0}")]
    Invalid(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hostile_schemas_are_refused() {
        let remote = json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}}});
        assert!(matches!(InputSchema::compile(&remote), Err(SchemaError::Invalid(_))));
        let local_file = json!({"$ref": "file:///etc/passwd"});
        assert!(matches!(InputSchema::compile(&local_file), Err(SchemaError::Invalid(_))));
        let mut deep = json!({"type": "string"});
        for _ in 0..DEEPEST {
            deep = json!({"items": deep});
        }
        assert!(matches!(InputSchema::compile(&deep), Err(SchemaError::TooDeep)));
        let heavy = json!({"properties": {"a": {"pattern": "((((a{0,99}){0,99}){0,99}){0,99})"}}});
        assert!(matches!(InputSchema::compile(&heavy), Err(SchemaError::Invalid(_))));
    }

    #[test]
    fn a_pattern_that_backtracks_elsewhere_is_linear_here() {
        let schema = InputSchema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
        assert!(!schema.validator().is_valid(&json!(format!("{}b", "a".repeat(50_000)))));
    }
}
