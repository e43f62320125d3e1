//! Repair of values of the wrong type that denote a valid one: `"3"` for 3, JSON text for a list, `"True"`
//! for true, `"Overwrite"` for an enum value in lower case, null for an argument that may be left out.

use serde_json::Value;
use tool::text::json_kind;
use tool::{Arguments, ToolDefinition, strict_json};

use super::RepairChanges;
use crate::problem;

/// Maximum depth of repaired values.
const MAX_DEPTH: usize = 6;
/// Maximum number of references followed for one value, which also ends reference loops.
const MAX_REFERENCES: usize = 8;

/// Converts each value to the type that the schema expects.
pub(super) fn convert(definition: &ToolDefinition, arguments: &mut Arguments, changes: &mut RepairChanges) {
    let root = definition.input_schema();
    ValueConverter { root, changes }.convert_object(arguments, root, "", MAX_DEPTH);
}

struct ValueConverter<'a> {
    root: &'a Value,
    changes: &'a mut RepairChanges,
}

impl<'a> ValueConverter<'a> {
    fn convert_object(&mut self, map: &mut Arguments, schema: &'a Value, pointer: &str, remaining: usize) {
        let nulls: Vec<String> =
            map.iter().filter(|(_, value)| value.is_null()).map(|(key, _)| key.clone()).collect();
        for key in nulls {
            let property = schema["properties"].get(&key).map(|property| self.resolve_schema(property));
            // If the argument is required and has no default, the final check rejects the repair.
            if property.is_some_and(|property| !allows_type(property, "null")) {
                self.changes.add(format!(
                    "leave out {} instead of sending null",
                    problem::join_pointer(pointer, &key)
                ));
                map.shift_remove(&key);
            }
        }
        for (key, value) in map.iter_mut() {
            if let Some(property) = schema["properties"].get(key) {
                self.convert_value(value, property, &problem::join_pointer(pointer, key), remaining);
            }
        }
    }

    fn convert_value(&mut self, value: &mut Value, schema: &'a Value, pointer: &str, remaining: usize) {
        let Some(remaining) = remaining.checked_sub(1).filter(|_| !self.changes.are_too_many()) else {
            return;
        };
        let schema = self.resolve_schema(schema);
        if let Value::String(text) = value
            && let Some(read) = parse_text(text, schema)
        {
            let kind = json_kind(&read);
            self.changes.add(match read {
                Value::String(_) => format!("use the schema's spelling for {pointer}"),
                _ => format!("send {pointer} as {kind}, not as text"),
            });
            *value = read;
        }
        match value {
            Value::Object(map) => self.convert_object(map, schema, pointer, remaining),
            Value::Array(items) => {
                let Some(schema) = schema.get("items") else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.convert_value(item, schema, &format!("{pointer}/{index}"), remaining);
                }
            }
            _ => {}
        }
    }

    /// Follows references, and a choice that has exactly one alternative other than null.
    fn resolve_schema(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            let target = schema["$ref"].as_str().and_then(|pointer| pointer.strip_prefix('#'));
            if let Some(target) = target.and_then(|pointer| self.root.pointer(pointer)) {
                schema = target;
                continue;
            }
            let choices =
                schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()).into_iter().flatten();
            let real: Vec<&Value> = choices.filter(|choice| choice["type"] != "null").collect();
            match real.as_slice() {
                [only] if schema.get("type").is_none() => schema = only,
                _ => return schema,
            }
        }
        schema
    }
}

/// Returns true if the schema allows this type.
fn allows_type(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(only) => only == kind,
        Value::Array(kinds) => kinds.iter().any(|known| known == kind),
        _ => true,
    }
}

/// Parses a text into the value it denotes, if the schema does not allow a string.
fn parse_text(text: &str, schema: &Value) -> Option<Value> {
    if allows_type(schema, "string") {
        return match_enum_case(text, schema);
    }
    let trimmed = text.trim();
    if schema["format"] == "command"
        && let Some(argv) = split_command(trimmed)
    {
        return allows_type(schema, "array").then_some(argv);
    }
    let read = match trimmed {
        "True" | "TRUE" => Value::Bool(true),
        "False" | "FALSE" => Value::Bool(false),
        _ => strict_json::parse(trimmed).ok()?,
    };
    let kind = match &read {
        Value::Number(number) if !number.is_f64() => {
            ["integer", "number"].into_iter().find(|kind| allows_type(schema, kind))?
        }
        other => json_kind(other),
    };
    (kind != "null" && allows_type(schema, kind)).then_some(read)
}

/// Splits a command line into words, if no shell would read more into it than words.
fn split_command(line: &str) -> Option<Value> {
    const SHELL_SYNTAX: &str = "|&;<>()$`\\\"'*?[]#~{}!\n\r";
    let is_assignment = |word: &str| word.contains('=');
    let first = line.split_whitespace().next()?;
    let plain = !line.contains(|c| SHELL_SYNTAX.contains(c)) && !is_assignment(first);
    plain.then(|| line.split_whitespace().map(Value::from).collect())
}

/// Returns the one enum value that differs from the text only by case.
fn match_enum_case(text: &str, schema: &Value) -> Option<Value> {
    let enum_values: Vec<&str> = schema["enum"].as_array()?.iter().filter_map(Value::as_str).collect();
    let mut same = enum_values.iter().filter(|word| word.to_lowercase() == text.to_lowercase());
    let (first, second) = (same.next()?, same.next());
    (*first != text && second.is_none()).then(|| Value::from(*first))
}
