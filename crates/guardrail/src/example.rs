//! Examples of valid calls: the tool's own example, else one generated from its schema. An example that the
//! tool's own check would refuse is not shown.

use serde_json::{Map, Value, json};

use crate::check::FilledArguments;
use crate::guardrail::KnownTool;

/// Maximum size of an example in bytes. A longer one would dominate the refusal and is not shown.
pub(crate) const MAX_EXAMPLE_BYTES: usize = 1024;
/// Maximum number of values in a generated example. If the schema needs more, the result does not match it
/// and is dropped.
const MAX_EXAMPLE_VALUES: usize = 64;
/// Maximum number of characters of a generated text, for the same reason.
const MAX_TEXT_CHARS: u64 = 256;

/// Returns an example as text: a text as it is, arguments as JSON.
pub(crate) fn to_text(example: &Value) -> String {
    example.as_str().map_or_else(|| example.to_string(), str::to_owned)
}

/// Returns arguments that the tool's schema accepts, if they can be found.
pub(crate) fn build(known: KnownTool<'_>) -> Option<Value> {
    let KnownTool { definition, schema } = known;
    let example = definition.example().cloned();
    let example = example.unwrap_or_else(|| {
        ExampleGenerator { values_left: MAX_EXAMPLE_VALUES }.value(definition.input_schema())
    });
    let filled = FilledArguments::new(definition, example.clone()).arguments;
    let accepted = filled.is_object() && schema.validator().is_valid(&filled);
    (accepted && example.to_string().len() <= MAX_EXAMPLE_BYTES).then_some(example)
}

/// Generator of a value that a schema is likely to accept: one the schema itself offers, else the simplest of
/// its type.
struct ExampleGenerator {
    /// Number of values that may still be generated. It also bounds the depth.
    values_left: usize,
}

impl ExampleGenerator {
    fn value(&mut self, schema: &Value) -> Value {
        let Some(remaining) = self.values_left.checked_sub(1) else { return Value::Null };
        self.values_left = remaining;
        let offered = ["/const", "/default", "/examples/0", "/enum/0"].map(|pointer| schema.pointer(pointer));
        if let Some(value) = offered.into_iter().flatten().find(|value| !value.is_null()) {
            return value.clone();
        }
        let kind = schema.pointer("/type/0").or_else(|| schema.get("type"));
        match kind.and_then(Value::as_str) {
            Some("integer" | "number") => number_within_bounds(schema),
            Some("boolean") => json!(true),
            Some("array") => self.array(schema),
            Some("object") => self.object(schema),
            Some(_) => text_within_bounds(schema),
            None => match schema.pointer("/anyOf/0").or_else(|| schema.pointer("/oneOf/0")) {
                Some(first) => self.value(first),
                None => text_within_bounds(schema),
            },
        }
    }

    fn array(&mut self, schema: &Value) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(1).max(1);
        let least = usize::try_from(least).unwrap_or(usize::MAX).min(self.values_left);
        (0..least).map(|_| self.value(&schema["items"])).collect()
    }

    fn object(&mut self, schema: &Value) -> Value {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let entries = required.take(self.values_left).map(|key| {
            let property = schema["properties"].get(key).unwrap_or(&Value::Null);
            (key.to_owned(), self.value(property))
        });
        Value::Object(entries.collect::<Map<_, _>>())
    }
}

/// Returns the number within the bounds that is closest to 1. Fractions between close bounds are not tried.
fn number_within_bounds(schema: &Value) -> Value {
    let bound = |word: &str| schema.get(word);
    let beyond = |word: &str, step: i64| {
        let bound = bound(word)?;
        match bound.as_i64() {
            Some(whole) => whole.checked_add(step).map(|whole| json!(whole)),
            None => bound.as_f64().map(|limit| json!(limit + step as f64)),
        }
    };
    let lowest = bound("minimum").cloned().or_else(|| beyond("exclusiveMinimum", 1));
    let highest = bound("maximum").cloned().or_else(|| beyond("exclusiveMaximum", -1));
    match (lowest, highest) {
        (Some(lowest), _) => lowest,
        (None, Some(highest)) if highest.as_f64().is_some_and(|highest| highest < 1.0) => highest,
        (None, _) => json!(1),
    }
}

/// Returns a text within the length bounds of the schema.
fn text_within_bounds(schema: &Value) -> Value {
    let plain = if schema["format"] == "path" { "notes.txt" } else { "…" };
    let length = plain.chars().count() as u64;
    let least = schema["minLength"].as_u64().unwrap_or(0).min(MAX_TEXT_CHARS);
    let max = schema["maxLength"].as_u64().unwrap_or(u64::MAX).min(MAX_TEXT_CHARS);
    let padding = plain.chars().cycle().take(usize::try_from(least.saturating_sub(length)).unwrap_or(0));
    let text = padding.chain(plain.chars()).take(usize::try_from(max).unwrap_or(usize::MAX));
    Value::String(text.collect())
}

#[cfg(test)]
mod tests {
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;
    use crate::InputSchema;

    fn example_for(input_schema: Value, example: Option<Value>) -> Option<Value> {
        let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
        (spec.input_schema, spec.example) = (Some(input_schema), example);
        let definition = std::sync::Arc::new(spec.check().unwrap());
        build(KnownTool {
            definition: &definition,
            schema: &InputSchema::compile(definition.input_schema()).unwrap(),
        })
    }

    fn generated_value(property: &Value) -> Option<Value> {
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": property}});
        example_for(schema, None).map(|mut example| example["a"].take())
    }

    #[test]
    fn generated_value_respects_schema_bounds() {
        let check = |property: Value, expect: Value| {
            assert_eq!(generated_value(&property), Some(expect), "{property}")
        };
        check(json!({"type": "string"}), json!("…"));
        check(json!({"type": "string", "minLength": 3}), json!("………"));
        check(json!({"type": "string", "maxLength": 0}), json!(""));
        check(json!({"type": "string", "format": "path", "minLength": 12}), json!("notnotes.txt"));
        check(json!({"type": "string", "format": "path", "maxLength": 5}), json!("notes"));
        check(json!({"type": "integer"}), json!(1));
        check(json!({"type": "integer", "minimum": 7}), json!(7));
        check(json!({"type": "integer", "exclusiveMinimum": 7}), json!(8));
        check(json!({"type": "number", "exclusiveMinimum": 0.5}), json!(1.5));
        check(json!({"type": "integer", "maximum": -4}), json!(-4));
        check(json!({"type": "integer", "exclusiveMaximum": 1}), json!(0));
        check(json!({"type": "integer", "maximum": 9}), json!(1));
        check(json!({"type": "array", "items": {"enum": ["x", "y"]}}), json!(["x"]));
        check(json!({"type": "array", "items": {"type": "boolean"}, "minItems": 2}), json!([true, true]));
        check(json!({"type": ["integer", "null"], "minimum": 2}), json!(2));
        check(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!(1));
        check(json!({"const": false}), json!(false));
        check(json!({"type": ["string", "null"], "default": null}), json!("…"));
        // The rest of the example is `{"a":""}`, 8 bytes.
        let longest = "x".repeat(MAX_EXAMPLE_BYTES - 8);
        check(json!({"type": "string", "default": longest}), json!(longest));
        let nested = json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "integer"}}});
        check(nested, json!({"b": 1}));
    }

    #[test]
    fn generated_value_that_would_be_refused_is_not_offered() {
        for unknowable in [
            json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
            json!({"type": "string", "minLength": 100_000}),
            json!({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}),
            json!({"type": "integer", "multipleOf": 7}),
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": true}),
            json!({"type": "array", "items": {"type": "integer"}, "minItems": u64::MAX}),
            json!({"not": {"type": "string"}}),
            json!({"type": "string", "default": "x".repeat(MAX_EXAMPLE_BYTES - 7)}),
        ] {
            assert_eq!(generated_value(&unknowable), None, "{unknowable:.80}");
        }
    }

    #[test]
    fn stated_example_is_shown_only_if_accepted() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
        let offer = |example: Value| example_for(schema.clone(), Some(example));
        assert_eq!(offer(json!({"a": 3})), Some(json!({"a": 3})));
        for wrong in [json!({"a": "3"}), json!({}), json!([]), json!(null)] {
            assert_eq!(offer(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn wide_and_deep_schema_is_cheap() {
        let mut schema = json!({"type": "integer"});
        for _ in 0..20 {
            schema = json!({"type": "array", "minItems": 1000, "items": schema});
        }
        assert_eq!(generated_value(&schema), None);
    }
}
