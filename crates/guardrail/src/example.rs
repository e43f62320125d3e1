//! A call that works: the tool's own example, else one made from its schema.

use serde_json::{Map, Value, json};
use tool::ToolDefinition;

/// Arguments the tool would accept.
pub(crate) fn of(definition: &ToolDefinition) -> Value {
    definition.example().cloned().unwrap_or_else(|| made_from(definition))
}

fn made_from(definition: &ToolDefinition) -> Value {
    let schema = definition.input_schema();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let property =
        |key: &str| schema["properties"].get(key).map_or(Value::Null, |property| sample(property, 0));
    let entries = required.map(|key| (key.to_owned(), property(key)));
    Value::Object(entries.collect::<Map<_, _>>())
}

/// The first thing the schema itself offers, else the plainest value of its type.
fn sample(schema: &Value, depth: usize) -> Value {
    let offered = ["/const", "/default", "/examples/0", "/enum/0"].map(|place| schema.pointer(place));
    if let Some(value) = offered.into_iter().flatten().find(|value| !value.is_null()) {
        return value.clone();
    }
    let kind = schema.pointer("/type/0").or_else(|| schema.get("type"));
    match kind.and_then(Value::as_str) {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") if depth < 4 => json!([sample(&schema["items"], depth + 1)]),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ if schema["format"] == "path" => json!("notes.txt"),
        _ => json!("…"),
    }
}
