//! Parameter of a tool, as the specification describes it, and its JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// JSON type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParameterType {
    /// A string.
    String,
    /// Any JSON number.
    Number,
    /// An integer.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
}

impl ParameterType {
    /// Returns the word JSON Schema uses.
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

    /// Returns the type that a schema admits: the declared one, else that of its allowed values. A union
    /// (`["integer", "null"]`) is shown by its first member; the schema keeps the whole union.
    fn of_schema(schema: &Value) -> Option<Self> {
        let named = |name: &Value| serde_json::from_value(name.clone()).ok();
        let is_text = |value: &Value| value.is_string().then_some(ParameterType::String);
        match (schema.get("type"), schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(names)), ..) => names.iter().find_map(named),
            (Some(name), ..) => named(name),
            (None, Some(values), _) => values.as_array()?.iter().find_map(is_text),
            (None, None, Some(value)) => is_text(value),
            (None, None, None) => {
                let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
                alternatives.as_array()?.iter().find_map(Self::of_schema)
            }
        }
    }

    /// Returns true if `value` is of this type.
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

/// Named parameter of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolParameter {
    /// Key in the arguments object.
    pub name: String,
    /// JSON type of the value.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// Description of the value, for the model.
    #[serde(default)]
    pub description: String,
    /// True if a call without it is refused. A parameter with a default is never required.
    #[serde(default = "required_by_default")]
    pub required: bool,
    /// Value used when the argument is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// JSON Schema format; `path` puts the value under the path rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Further JSON Schema keywords (`enum`, `minimum`, `items`, …), copied unchanged into the schema.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub schema: Map<String, Value>,
}

fn required_by_default() -> bool {
    true
}

impl ToolParameter {
    /// Creates a required parameter.
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

    /// Makes the parameter optional, with this default.
    pub fn with_default(mut self, default: Value) -> Self {
        self.default = Some(default);
        self
    }

    /// Returns true if a call without it is refused. A default makes a parameter optional.
    pub fn is_required(&self) -> bool {
        self.required && self.default.is_none()
    }

    /// Builds the schema of the value.
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

    /// Derives the parameters from an object schema, for tools that declare a whole schema.
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
        let kind = ParameterType::of_schema(property).unwrap_or(ParameterType::Object);
        rest.remove("type");
        let required = required.contains(&name);
        ToolParameter { name: name.to_owned(), kind, description, required, default, format, schema: rest }
    }
}

/// Builds the closed object schema of a parameter list.
pub(crate) fn object_schema(parameters: &[ToolParameter]) -> Value {
    let properties: Map<String, Value> =
        parameters.iter().map(|p| (p.name.clone(), p.value_schema())).collect();
    let required: Vec<&str> =
        parameters.iter().filter(|p| p.is_required()).map(|p| p.name.as_str()).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Format")]
#[allow(missing_docs, reason = "the words are those of JSON Schema")]
pub enum TextFormat {
    Email,
    Uri,
    Date,
    Time,
    DateTime,
    Uuid,
    Ipv4,
    Ipv6,
    Hostname,
}

impl TextFormat {
    /// Returns the word used in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            TextFormat::Email => "email",
            TextFormat::Uri => "uri",
            TextFormat::Date => "date",
            TextFormat::Time => "time",
            TextFormat::DateTime => "date-time",
            TextFormat::Uuid => "uuid",
            TextFormat::Ipv4 => "ipv4",
            TextFormat::Ipv6 => "ipv6",
            TextFormat::Hostname => "hostname",
        }
    }
}
