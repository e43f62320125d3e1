//! Export of a definition to the formats that other programs read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ToolDefinition;

/// Format of an exported tool definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolFormat {
    /// Sinew's own format, with all governance facts.
    #[default]
    Native,
    /// Model Context Protocol.
    Mcp,
    /// OpenAI function calling.
    Openai,
    /// Anthropic tool use.
    Anthropic,
}

impl ToolFormat {
    /// Converts the definition to this format.
    pub fn export(self, definition: &ToolDefinition) -> Value {
        match self {
            ToolFormat::Native => serde_json::to_value(definition).unwrap_or_default(),
            ToolFormat::Mcp => mcp(definition),
            ToolFormat::Openai => json!({"type": "function", "function": {
                "name": definition.name_without_dots(),
                "description": definition.description(),
                "parameters": model_input_schema(definition.input_schema()),
            }}),
            ToolFormat::Anthropic => json!({
                "name": definition.name_without_dots(),
                "description": definition.description(),
                "input_schema": model_input_schema(definition.input_schema()),
            }),
        }
    }
}

fn mcp(definition: &ToolDefinition) -> Value {
    let mut tool = json!({
        "name": definition.name_without_dots(),
        "description": definition.description(),
        "inputSchema": model_input_schema(definition.input_schema()),
        "annotations": definition.annotations(),
        "_meta": {
            "sinew/category": definition.category(),
            "sinew/risk": definition.risk_level(),
            "sinew/version": definition.version(),
        },
    });
    if let (Some(schema), Some(tool)) = (definition.output_schema(), tool.as_object_mut()) {
        tool.insert("outputSchema".into(), model_output_schema(schema));
    }
    tool
}

/// Formats that JSON Schema defines and that the converters accept.
const KNOWN_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
/// Prefix of the keywords that only Sinew reads.
const OWN_KEYWORDS: &str = "x-sinew-";
/// Keywords that describe a value to people; they stay outside of the branches.
const DESCRIPTIONS: [&str; 3] = ["title", "description", "default"];

/// Converts the schema of arguments.
pub(super) fn model_input_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    convert_arguments(&mut schema);
    split_types(&mut schema);
    schema
}

/// Converts the schema of an output.
pub(super) fn model_output_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    split_types(&mut schema);
    schema
}

/// Removes keywords that only Sinew reads, and makes optional arguments nullable.
fn convert_arguments(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    schema.retain(|keyword, value| match keyword.as_str() {
        "format" => value.as_str().is_some_and(|format| KNOWN_FORMATS.contains(&format)),
        keyword => !keyword.starts_with(OWN_KEYWORDS),
    });
    let required: Vec<Value> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            let is_required = required.iter().any(|listed| listed == name);
            if let (false, Value::Object(property)) = (is_required, property) {
                make_nullable(property);
            }
        }
    }
    for_each_subschema(schema, &mut convert_arguments);
}

/// Adds null to the types of an argument without a default.
fn make_nullable(property: &mut Map<String, Value>) {
    if property.get("default").is_some_and(|default| !default.is_null()) {
        return;
    }
    property.remove("default");
    if let Some(Value::String(kind)) = property.get("type") {
        let kinds = json!([kind, "null"]);
        property.insert("type".to_owned(), kinds);
    }
}

/// Replaces a list of types by `anyOf` with one type per branch. Each branch has all other keywords, of which
/// those for another type have no effect.
fn split_types(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for_each_subschema(schema, &mut split_types);
    let Some(Value::Array(kinds)) = schema.get("type").cloned() else { return };
    let (described, mut rest): (Map<_, _>, Map<_, _>) =
        std::mem::take(schema).into_iter().partition(|(keyword, _)| DESCRIPTIONS.contains(&keyword.as_str()));
    if let Some(Value::Array(values)) = rest.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let branch = |kind: Value| match kind {
        kind if kind == "null" => json!({"type": "null"}),
        kind => {
            let mut branch = rest.clone();
            branch.insert("type".to_owned(), kind);
            Value::Object(branch)
        }
    };
    schema.extend(described);
    schema.insert("anyOf".to_owned(), kinds.into_iter().map(branch).collect());
}

/// Calls `each` for the schemas in a schema. Names of properties are not keywords.
fn for_each_subschema(schema: &mut Map<String, Value>, each: &mut impl FnMut(&mut Value)) {
    for keyword in ["properties", "$defs", "definitions", "patternProperties"] {
        let named = schema.get_mut(keyword).and_then(Value::as_object_mut);
        named.into_iter().flat_map(Map::values_mut).for_each(&mut *each);
    }
    for keyword in ["items", "additionalProperties", "not"] {
        schema.get_mut(keyword).into_iter().for_each(&mut *each);
    }
    for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        let alternatives = schema.get_mut(keyword).and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(&mut *each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::ToolParameter;
    use crate::{Category, RiskLevel, ToolSpec};

    fn definition() -> ToolDefinition {
        let mut spec = ToolSpec::new("git.status", "Status", Category::READ_ONLY, RiskLevel::Low);
        spec.parameters = vec![ToolParameter::new("path", crate::definition::ParameterType::String, "where")];
        spec.output_schema = Some(json!({"type": "object"}));
        spec.check().unwrap()
    }

    #[test]
    fn each_format_has_its_shape() {
        let definition = definition();
        let schema = model_input_schema(definition.input_schema());
        let mcp = ToolFormat::Mcp.export(&definition);
        assert_eq!((&mcp["name"], &mcp["inputSchema"]), (&json!("git__status"), &schema));
        assert_eq!(mcp["outputSchema"], json!({"type": "object"}));
        let openai = ToolFormat::Openai.export(&definition);
        assert_eq!(openai["type"], "function");
        assert_eq!(openai["function"]["name"], "git__status");
        assert_eq!(openai["function"]["parameters"]["additionalProperties"], false);
        let anthropic = ToolFormat::Anthropic.export(&definition);
        assert_eq!((&anthropic["name"], &anthropic["input_schema"]), (&json!("git__status"), &schema));
        let native = ToolFormat::Native.export(&definition);
        assert_eq!(native["definition_hash"], definition.hash());
        assert_eq!(native["parameters"][0]["name"], "path");
    }

    #[test]
    fn native_format_round_trips() {
        let native = ToolFormat::Native.export(&definition());
        let again = ToolSpec::from_native(native.clone()).unwrap().check().unwrap();
        assert_eq!(ToolFormat::Native.export(&again), native);
    }

    #[test]
    fn optional_arguments_are_nullable_and_own_keywords_are_removed() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
            "path": {"type": "string", "format": "path", "x-sinew-access": "read", "minLength": 1},
            "format": {"type": "string", "enum": ["a", "b"], "default": null},
            "limit": {"type": ["integer", "null"], "minimum": 1, "description": "l", "default": null},
            "depth": {"type": "integer", "default": 1},
            "at": {"type": "string", "format": "date-time"},
            "edits": {"type": "array", "items": {"type": "string", "format": "command"}, "default": []}}});
        let expect = json!({"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
            "path": {"type": "string", "minLength": 1},
            "format": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
            "limit": {"description": "l", "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "depth": {"type": "integer", "default": 1},
            "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            "edits": {"type": "array", "items": {"type": "string"}, "default": []}}});
        assert_eq!(model_input_schema(&schema), expect);
    }

    #[test]
    fn types_of_an_output_are_split_at_every_depth() {
        let schema = json!({"type": "object", "properties": {
            "counts": {"type": ["object", "null"], "properties": {"n": {"type": ["integer", "null"]}}},
            "type": {"type": "string"}}});
        let expect = json!({"type": "object", "properties": {
            "counts": {"anyOf": [{"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
                "type": "object"}, {"type": "null"}]},
            "type": {"type": "string"}}});
        assert_eq!(model_output_schema(&schema), expect);
    }
}
