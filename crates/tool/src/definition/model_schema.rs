//! Input schema in the subset of JSON Schema that the function-calling interfaces of models accept.
//!
//! Strict converters reject formats that JSON Schema does not define and unknown keywords, and they make every
//! argument required. So an optional argument without a default says that it may be null, as
//! `type: [T, "null"]`, and calls may send null for it.

use serde_json::{Map, Value, json};

/// Formats that JSON Schema defines and that the converters accept.
const KNOWN_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
/// Prefix of the keywords that only Sinew reads.
const OWN_KEYWORDS: &str = "x-sinew-";

/// Converts an input schema.
pub(super) fn model_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    convert(&mut schema);
    schema
}

/// Converts a schema and the schemas in it. Names of properties are not keywords.
fn convert(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.retain(|keyword, value| match keyword.as_str() {
        "format" => value.as_str().is_some_and(|format| KNOWN_FORMATS.contains(&format)),
        keyword => !keyword.starts_with(OWN_KEYWORDS),
    });
    let required: Vec<Value> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            convert(property);
            if let Value::Object(property) = property {
                convert_default(property, required.iter().any(|listed| listed == name));
            }
        }
    }
    for keyword in ["items", "additionalProperties", "not"] {
        schema.get_mut(keyword).into_iter().for_each(convert);
    }
    for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        let alternatives = schema.get_mut(keyword).and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(convert);
    }
    for keyword in ["$defs", "definitions", "patternProperties"] {
        let named = schema.get_mut(keyword).and_then(Value::as_object_mut);
        named.into_iter().flat_map(Map::values_mut).for_each(convert);
    }
}

/// Replaces the default `null` of an optional argument by a nullable type.
fn convert_default(property: &mut Map<String, Value>, is_required: bool) {
    if is_required || property.get("default").is_some_and(|default| !default.is_null()) {
        return;
    }
    property.remove("default");
    if let Some(Value::String(kind)) = property.get("type") {
        let kind = json!([kind, "null"]);
        property.insert("type".to_owned(), kind);
    }
    if let Some(Value::Array(values)) = property.get_mut("enum").filter(|values| !contains_null(values)) {
        values.push(Value::Null);
    }
}

fn contains_null(values: &Value) -> bool {
    values.as_array().is_some_and(|values| values.iter().any(Value::is_null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_arguments_are_nullable_and_own_keywords_are_removed() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
            "path": {"type": "string", "format": "path", "x-sinew-access": "read", "minLength": 1},
            "format": {"type": "string", "enum": ["a", "b"], "default": null},
            "limit": {"type": ["integer", "null"], "default": null},
            "depth": {"type": "integer", "default": 1},
            "at": {"type": "string", "format": "date-time"},
            "edits": {"type": "array", "items": {"type": "string", "format": "command"}, "default": []}}});
        let expect = json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
            "path": {"type": "string", "minLength": 1},
            "format": {"type": ["string", "null"], "enum": ["a", "b", null]},
            "limit": {"type": ["integer", "null"]},
            "depth": {"type": "integer", "default": 1},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "edits": {"type": "array", "items": {"type": "string"}, "default": []}}});
        assert_eq!(model_schema(&schema), expect);
    }
}
