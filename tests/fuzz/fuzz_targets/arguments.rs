//! Arguments against the schema of a tool: every refused call names a problem.

#![no_main]

use guardrail::InputSchema;
use serde_json::json;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(value) = tool::strict_json::parse(text) else { return };
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 40},
        "count": {"type": "integer", "minimum": 0, "maximum": 9},
        "kind": {"enum": ["a", "b"]},
        "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}, "maxItems": 3},
    }});
    let schema = InputSchema::compile(&schema).expect("a schema");
    assert!(schema.first_error(&value).is_none_or(|problem| !problem.is_empty()));
    // A caller can also bring the schema: a manifest of an upstream server.
    let _ = InputSchema::compile(&value);
});
