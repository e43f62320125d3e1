//! One parameter of a tool, as the documents describe it, and its JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The JSON types a parameter can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// Text.
    String,
    /// Any JSON number.
    Number,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
}

impl ParameterType {
    /// The word JSON Schema uses.
    pub fn as_str(self) -> &'static str {
        match self {
            ParameterType::String => "string",
            ParameterType::Number => "number",
            ParameterType::Integer => "integer",
            ParameterType::Boolean => "boolean",
            ParameterType::Object => "object",
            ParameterType::Array => "array",
        }
    }

    /// Whether `value` is of this type.
    pub fn admits(self, value: &Value) -> bool {
        match self {
            ParameterType::String => value.is_string(),
            ParameterType::Number => value.is_number(),
            ParameterType::Integer => value.is_i64() || value.is_u64(),
            ParameterType::Boolean => value.is_boolean(),
            ParameterType::Object => value.is_object(),
            ParameterType::Array => value.is_array(),
        }
    }
}

/// One named parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolParameter {
    /// The key in the arguments object.
    pub name: String,
    /// Its JSON type.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// What to put there, for the model.
    #[serde(default)]
    pub description: String,
    /// Whether the call is refused without it. A parameter with a default is never required.
    #[serde(default = "required_by_default")]
    pub required: bool,
    /// Filled in when the argument is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// A JSON Schema format; `path` puts the value under the path rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Further JSON Schema keywords (`enum`, `minimum`, `items`, …), used as they stand.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub schema: Map<String, Value>,
}

fn required_by_default() -> bool {
    true
}

impl ToolParameter {
    /// A required parameter.
    pub fn new(name: &str, kind: ParameterType, description: &str) -> Self {
        ToolParameter {
            name: name.to_owned(),
            kind,
            description: description.to_owned(),
            required: true,
            default: None,
            format: None,
            schema: Map::new(),
        }
    }

    /// The same parameter, optional, with this default.
    pub fn or(mut self, default: Value) -> Self {
        self.default = Some(default);
        self
    }

    /// Whether a call without it is refused (decision: a default makes it optional).
    pub fn must_be_given(&self) -> bool {
        self.required && self.default.is_none()
    }

    /// The schema of its value.
    pub(crate) fn value_schema(&self) -> Value {
        let mut schema = self.schema.clone();
        schema.insert("type".into(), json!(self.kind.as_str()));
        if !self.description.is_empty() {
            schema.insert("description".into(), json!(self.description));
        }
        if let Some(format) = &self.format {
            schema.insert("format".into(), json!(format));
        }
        if let Some(default) = &self.default {
            schema.insert("default".into(), default.clone());
        }
        Value::Object(schema)
    }

    /// Reads the parameters back out of an object schema, for tools that state a whole schema.
    pub(crate) fn from_schema(schema: &Value) -> Vec<ToolParameter> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties.map(|(name, property)| Self::from_property(name, property, &required)).collect()
    }

    fn from_property(name: &str, property: &Value, required: &[&str]) -> ToolParameter {
        let mut rest = property.as_object().cloned().unwrap_or_default();
        let mut text = |key: &str| rest.remove(key).and_then(|v| v.as_str().map(str::to_owned));
        let (description, format) = (text("description").unwrap_or_default(), text("format"));
        let default = rest.remove("default");
        // A union (`["integer", "null"]`) is shown by its first member; the whole stays in the schema.
        let kind = match property.get("type") {
            Some(Value::Array(kinds)) => kinds.first().cloned(),
            other => other.cloned(),
        };
        let kind = kind.and_then(|k| serde_json::from_value(k).ok()).unwrap_or(ParameterType::Object);
        rest.remove("type");
        let required = required.contains(&name);
        ToolParameter { name: name.to_owned(), kind, description, required, default, format, schema: rest }
    }
}

/// The closed object schema of a parameter list.
pub(crate) fn object_schema(parameters: &[ToolParameter]) -> Value {
    let properties: Map<String, Value> =
        parameters.iter().map(|p| (p.name.clone(), p.value_schema())).collect();
    let required: Vec<&str> =
        parameters.iter().filter(|p| p.must_be_given()).map(|p| p.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}
