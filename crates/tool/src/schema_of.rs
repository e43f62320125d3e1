//! The schema of a Rust type, as a tool list shows it. What a tool states by itself is not looked at here.

use schemars::JsonSchema;
use serde_json::{Value, json};

/// The schema of a Rust type, without the keywords that only clutter a tool list.
pub(crate) fn schema_of<T: JsonSchema>(numbers: Numbers) -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.entry("properties").or_insert_with(|| json!({}));
    }
    replace_rust_formats(&mut schema, numbers);
    schema
}

/// What is said of a number besides that it is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// What its type can hold: a larger one is refused before the tool sees it.
    Bounded,
    /// Nothing more.
    AsTheyAre,
}

/// `uint64` and its like are no formats of JSON Schema, and clients warn about each; bounds say what they mean.
fn replace_rust_formats(schema: &mut Value, numbers: Numbers) {
    match schema {
        Value::Object(object) => {
            let is_number = object.get("type").is_some_and(|kind| {
                let names = kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice);
                names.iter().any(|name| name == "integer" || name == "number")
            });
            let format = if is_number { object.remove("format") } else { None };
            let bounds = format.as_ref().and_then(Value::as_str).and_then(bounds_of);
            if let Some((least, most)) = bounds.filter(|_| numbers == Numbers::Bounded) {
                object.entry("minimum").or_insert(json!(least));
                object.entry("maximum").or_insert(json!(most));
            }
            object.values_mut().for_each(|value| replace_rust_formats(value, numbers));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_rust_formats(item, numbers)),
        _ => {}
    }
}

/// The integers that a type takes; of the widest those that every reader of JSON holds exactly.
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
    use super::*;

    #[test]
    fn a_schema_speaks_of_no_type_of_rust() {
        #[derive(JsonSchema)]
        struct Sample {
            #[expect(dead_code, reason = "only its type matters")]
            count: Option<u64>,
            #[expect(dead_code, reason = "only its type matters")]
            #[schemars(extend("format" = "path"))]
            format: String,
        }
        let check = |numbers: Numbers, count: Value| {
            let expect = json!({"count": count, "format": {"type": "string", "format": "path"}});
            assert_eq!(schema_of::<Sample>(numbers)["properties"], expect);
        };
        check(Numbers::AsTheyAre, json!({"type": ["integer", "null"], "minimum": 0}));
        // Or a number that fits no integer would pass, and be the tool's own fault.
        let most = (1_u64 << 53) - 1;
        check(Numbers::Bounded, json!({"type": ["integer", "null"], "minimum": 0, "maximum": most}));
    }
}
