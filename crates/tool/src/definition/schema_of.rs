//! JSON Schema of a Rust type, for tool lists. Schemas that a tool declares itself are not processed here.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// Generates the schema of a Rust type, without keywords that add nothing to a tool list.
pub(crate) fn schema_of<T: JsonSchema>(direction: Direction) -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let settings = match direction {
        Direction::Input => settings,
        // The deserialize contract, schemars' default, requires fields that `skip_serializing_if` leaves out.
        Direction::Output => settings.for_serialize(),
    };
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.entry("properties").or_insert_with(|| json!({}));
    }
    replace_rust_formats(&mut schema, direction);
    merge_string_constants(&mut schema, direction);
    schema
}

/// Direction in which values of a schema travel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Arguments, which are deserialised. Numbers are bounded by their Rust type, so that a larger one is refused before
    /// the tool runs.
    Input,
    /// Results, which are serialised. Numbers carry no bounds of their Rust type.
    Output,
}

/// Replaces formats such as `uint64`, which JSON Schema does not define and clients warn about, with bounds.
fn replace_rust_formats(schema: &mut Value, direction: Direction) {
    match schema {
        Value::Object(object) => {
            let is_number = object.get("type").is_some_and(|kind| {
                let names = kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice);
                names.iter().any(|name| name == "integer" || name == "number")
            });
            let format = if is_number { object.remove("format") } else { None };
            let bounds = format.as_ref().and_then(Value::as_str).and_then(bounds_of);
            if let Some((least, max)) = bounds.filter(|_| direction == Direction::Input) {
                object.entry("minimum").or_insert(json!(least));
                object.entry("maximum").or_insert(json!(max));
            }
            object.values_mut().for_each(|value| replace_rust_formats(value, direction));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_rust_formats(item, direction)),
        _ => {}
    }
}

/// Replaces alternatives of string constants, which schemars writes for an enum with documented variants, by
/// one typed enum. Several clients take only `type` and `enum`.
fn merge_string_constants(schema: &mut Value, direction: Direction) {
    match schema {
        Value::Object(object) => {
            object.values_mut().for_each(|value| merge_string_constants(value, direction));
            merge_constants_of(object);
            merge_null_alternative(object, direction);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| merge_string_constants(item, direction)),
        _ => {}
    }
}

fn merge_constants_of(object: &mut Map<String, Value>) {
    let Some(alternatives) = object.get("oneOf").and_then(Value::as_array) else { return };
    let mut enum_values = Vec::new();
    let mut notes = Vec::new();
    for alternative in alternatives {
        let listed = alternative.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        let constant = alternative.get("const").map(std::slice::from_ref);
        let Some(values) = listed.or(constant).filter(|values| values.iter().all(Value::is_string)) else {
            return;
        };
        if let (Some(word), Some(note)) = (values.first(), alternative.get("description")) {
            let (word, note) = (word.as_str().unwrap_or_default(), note.as_str().unwrap_or_default());
            notes.push(format!("{word}: {}", note.trim_end_matches('.')));
        }
        enum_values.extend(values.iter().cloned());
    }
    object.remove("oneOf");
    object.insert("type".to_owned(), json!("string"));
    object.insert("enum".to_owned(), Value::Array(enum_values));
    if !notes.is_empty() {
        let about = object.get("description").and_then(Value::as_str).map(|about| format!("{about} "));
        let about = format!("{}{}.", about.unwrap_or_default(), notes.join("; "));
        object.insert("description".to_owned(), json!(about));
    }
}

/// Merges `anyOf: [enum, null]` into the enum. In arguments, null means that the argument is absent, so only
/// results list it.
fn merge_null_alternative(object: &mut Map<String, Value>, direction: Direction) {
    let Some([Value::Object(enum_schema), null]) =
        object.get("anyOf").and_then(Value::as_array).map(Vec::as_slice)
    else {
        return;
    };
    if enum_schema.get("type") != Some(&json!("string"))
        || !enum_schema.contains_key("enum")
        || null["type"] != "null"
    {
        return;
    }
    let mut enum_schema = enum_schema.clone();
    if let (Direction::Output, Some(Value::Array(values))) = (direction, enum_schema.get_mut("enum")) {
        values.push(Value::Null);
        enum_schema.insert("type".to_owned(), json!(["string", "null"]));
    }
    object.remove("anyOf");
    for (key, value) in enum_schema {
        match (key.as_str(), object.get("description").and_then(Value::as_str), value.as_str()) {
            ("description", Some(about), Some(note)) => {
                let about = format!("{about} {note}");
                object.insert(key, json!(about));
            }
            _ => {
                object.insert(key, value);
            }
        }
    }
}

/// Returns the range of an integer type; for 64-bit types, the range that every JSON reader represents
/// exactly.
fn bounds_of(format: &str) -> Option<(i64, i64)> {
    const EXACT: i64 = (1 << 53) - 1;
    let bounds = match format {
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint" | "uint64" => (0, EXACT),
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "int" | "int64" => (-EXACT, EXACT),
        _ => return None,
    };
    Some(bounds)
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[test]
    fn schema_contains_no_rust_number_formats() {
        #[derive(JsonSchema)]
        struct Sample {
            #[expect(dead_code, reason = "only its type matters")]
            count: Option<u64>,
            #[expect(dead_code, reason = "only its type matters")]
            #[schemars(extend("format" = "path"))]
            format: String,
        }
        let check = |direction: Direction, count: Value| {
            let expect = json!({"count": count, "format": {"type": "string", "format": "path"}});
            assert_eq!(schema_of::<Sample>(direction)["properties"], expect);
        };
        check(Direction::Output, json!({"type": ["integer", "null"], "minimum": 0}));
        // Without the bound, a number outside the range would pass the schema and fail inside the tool.
        let max = (1_u64 << 53) - 1;
        check(Direction::Input, json!({"type": ["integer", "null"], "minimum": 0, "maximum": max}));
    }

    #[test]
    fn string_enum_is_typed_in_both_directions() {
        #[derive(Serialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        #[expect(dead_code, reason = "only its type matters")]
        enum Level {
            /// Worst.
            Error,
            /// Other.
            Info,
        }
        #[derive(Serialize, JsonSchema)]
        #[allow(dead_code, reason = "only its schema is used")]
        struct Sample {
            /// Severity.
            level: Option<Level>,
        }
        let level = |direction| schema_of::<Sample>(direction)["properties"]["level"].clone();
        let input = level(Direction::Input);
        assert_eq!(
            (&input["type"], &input["enum"]),
            (&json!("string"), &json!(["error", "info"])),
            "{input}"
        );
        assert_eq!(input["description"], "Severity. error: Worst; info: Other.");
        let output = level(Direction::Output);
        assert_eq!(output["type"], json!(["string", "null"]), "{output}");
        assert_eq!(output["enum"], json!(["error", "info", null]));
        assert!(output.get("anyOf").is_none());
    }

    #[test]
    fn output_schema_requires_what_is_always_serialised() {
        #[derive(Serialize, JsonSchema)]
        struct Sample {
            always: Vec<u8>,
            nullable: Option<u8>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            list: Vec<u8>,
            #[serde(skip_serializing_if = "String::is_empty")]
            text: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            option: Option<Inner>,
        }
        #[derive(Serialize, JsonSchema)]
        struct Inner {
            always: bool,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            list: Vec<u8>,
        }
        let check = |sample: Sample| {
            let schema = schema_of::<Sample>(Direction::Output);
            let value = serde_json::to_value(sample).unwrap();
            assert_eq!(schema["required"], json!(["always", "nullable"]));
            let inner = &schema["properties"]["option"];
            let inner = inner["anyOf"].as_array().map_or(inner, |arms| &arms[0]);
            assert_eq!(inner["required"], json!(["always"]), "{schema}");
            assert!(value.get("always").is_some() && value.get("nullable").is_some(), "{value}");
        };
        let inner = Inner { always: true, list: Vec::new() };
        check(Sample { always: vec![], nullable: None, list: vec![], text: String::new(), option: None });
        check(Sample {
            always: vec![],
            nullable: None,
            list: vec![1],
            text: "t".to_owned(),
            option: Some(inner),
        });
    }
}
