//! Check of a tree against the JSON Schema that editors use. Reports every deviation with its position and
//! code.
//!
//! A general validator knows neither positions nor our codes, and its messages for `anyOf` are unreadable.
//! This one supports only the keywords that our own types produce; a test lists them.

use std::sync::OnceLock;

use schemars::schema_for;
use serde_json::{Map, Value};
use strict_yaml::{YamlNode, YamlNodeKind};

use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DECIDING_KEYS, DiagnosticCollector, FieldPosition, only_informs};
use crate::manifest_file::ManifestFile;

/// Field path of the section that names the key of a server.
const KEY_FIELD: &str = "tool.mcp_specific.key";
/// Field path of the keys of the section that describes a server.
const SERVER_FIELD: &str = "tool.mcp_specific.";

/// Returns the schema of manifest files.
pub(crate) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| schema_for!(ManifestFile).to_value())
}

/// Reports deviations of `node` from `shape`, a part of `schema()`. `field` is the path of the node.
pub(crate) fn check(
    node: &YamlNode,
    shape: &Value,
    field: &mut String,
    findings: &mut DiagnosticCollector<'_>,
) {
    let Some(shape) = resolve(node, shape) else {
        return mismatch(node, shape, field, findings);
    };
    if shape.get("format").is_some_and(|format| format == "semver") {
        return check_version(node, field, findings);
    }
    if let Some(enum_values) = allowed_values(shape) {
        return check_enum(node, &enum_values, field, findings);
    }
    if !admits(shape, node) {
        return mismatch(node, &Value::Object(shape.clone()), field, findings);
    }
    match &node.kind {
        YamlNodeKind::Mapping(_) => check_mapping(node, shape, field, findings),
        YamlNodeKind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                with_field(field, &format!("[{index}]"), |field| {
                    check(item, shape.get("items").unwrap_or(&Value::Bool(true)), field, findings);
                });
            }
        }
        YamlNodeKind::Text(text) => {
            if shape.contains_key("minLength") && text.trim().is_empty() {
                let message = format!("`{}` is empty", last_segment(field));
                findings.add(
                    DiagnosticCode::MissingRequiredField,
                    FieldPosition::node(node, field),
                    &message,
                    "give it a value",
                );
            }
        }
        YamlNodeKind::Number(number, _) => {
            if shape.get("minimum").is_some_and(|least| number.as_f64() < least.as_f64()) {
                findings.add(
                    DiagnosticCode::InvalidValue,
                    FieldPosition::node(node, field),
                    "is too small",
                    "0 or more",
                );
            }
        }
        YamlNodeKind::Boolean(_) | YamlNodeKind::Null => {}
    }
}

/// Resolves references, and selects from alternatives the one for this kind of value.
pub(crate) fn resolve<'s>(node: &YamlNode, shape: &'s Value) -> Option<&'s Map<String, Value>> {
    let object = shape.as_object()?;
    if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
        return resolve(node, schema().pointer(reference.trim_start_matches('#'))?);
    }
    if let Some(choices) = object.get("anyOf").and_then(Value::as_array) {
        let mut schema_checked = choices.iter().filter_map(|choice| resolve(node, choice));
        return schema_checked.find(|choice| allowed_values(choice).is_some() || admits(choice, node));
    }
    Some(object)
}

/// Returns the allowed values of an enumeration.
pub(crate) fn allowed_values(shape: &Map<String, Value>) -> Option<Vec<&Value>> {
    if let Some(enum_values) = shape.get("enum").and_then(Value::as_array) {
        return Some(enum_values.iter().collect());
    }
    let choices = shape.get("oneOf").and_then(Value::as_array)?;
    choices.iter().map(|choice| choice.get("const")).collect()
}

pub(crate) fn admits(shape: &Map<String, Value>, node: &YamlNode) -> bool {
    let is = |word: &str| match &node.kind {
        YamlNodeKind::Text(_) => word == "string",
        YamlNodeKind::Number(number, _) => word == "number" || (word == "integer" && !number.is_f64()),
        YamlNodeKind::Boolean(_) => word == "boolean",
        YamlNodeKind::Null => word == "null",
        YamlNodeKind::List(_) => word == "array",
        YamlNodeKind::Mapping(_) => word == "object",
    };
    match shape.get("type") {
        Some(Value::String(word)) => is(word),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn mismatch(node: &YamlNode, shape: &Value, field: &str, findings: &mut DiagnosticCollector<'_>) {
    let expected = expected_types(shape);
    if shape == &Value::Bool(true) || expected.is_empty() {
        return;
    }
    let expected = expected.join(" or ");
    let message = format!("`{}` must be {expected}, not {}", last_segment(field), node.kind_name());
    let fix = match (expected.as_str(), &node.kind) {
        _ if findings.is_hidden_line(node.line) => format!("write {expected}"),
        ("text", YamlNodeKind::Number(_, text)) => format!("quote it: \"{text}\""),
        ("text", YamlNodeKind::Boolean(value)) => format!("quote it: \"{value}\""),
        _ => format!("write {expected}"),
    };
    findings.add(DiagnosticCode::InvalidType, FieldPosition::node(node, field), &message, &fix);
}

/// Returns the types that a schema accepts, as words for messages.
fn expected_types(shape: &Value) -> Vec<&'static str> {
    if let Some(reference) = shape.get("$ref").and_then(Value::as_str) {
        let target = schema().pointer(reference.trim_start_matches('#'));
        return target.map(expected_types).unwrap_or_default();
    }
    let named = |word: &str| match word {
        "string" => Some("text"),
        "number" => Some("a number"),
        "integer" => Some("a whole number"),
        "boolean" => Some("true or false"),
        "array" => Some("a list"),
        "object" => Some("a mapping"),
        _ => None,
    };
    match (shape.get("type"), shape.get("anyOf")) {
        (Some(Value::String(word)), _) => named(word).into_iter().collect(),
        (Some(Value::Array(types)), _) => types.iter().filter_map(Value::as_str).filter_map(named).collect(),
        (None, Some(Value::Array(choices))) => choices.iter().flat_map(expected_types).collect(),
        _ => Vec::new(),
    }
}

fn check_version(node: &YamlNode, field: &str, findings: &mut DiagnosticCollector<'_>) {
    let (written, fix) = match &node.kind {
        YamlNodeKind::Text(text) if tool::definition::is_version(text) => return,
        YamlNodeKind::Text(text) if text.trim().is_empty() => {
            let at = FieldPosition::node(node, field);
            return findings.add(
                DiagnosticCode::MissingRequiredField,
                at,
                "`version` is empty",
                "version: 1.0.0",
            );
        }
        YamlNodeKind::Text(text) => (text.clone(), "write three numbers, such as 1.0.0".to_owned()),
        YamlNodeKind::Number(_, text) => {
            (text.clone(), "write three parts in quotes, such as \"1.0.0\"".to_owned())
        }
        _ => return mismatch(node, &serde_json::json!({"type": "string"}), field, findings),
    };
    let message = format!(
        "`{}` is not a semantic version",
        tool::text::shorten(&written, tool::text::MAX_QUOTED_CHARS)
    );
    findings.add(DiagnosticCode::InvalidSemver, FieldPosition::node(node, field), &message, &fix);
}

fn check_enum(node: &YamlNode, enum_values: &[&Value], field: &str, findings: &mut DiagnosticCollector<'_>) {
    let written = node.to_json();
    if enum_values.contains(&&written) {
        return;
    }
    if !matches!(node.kind, YamlNodeKind::Text(_) | YamlNodeKind::Number(..))
        || (!written.is_string() && enum_values.iter().all(|word| word.is_string()))
    {
        return mismatch(node, &serde_json::json!({"type": "string"}), field, findings);
    }
    let texts: Vec<&str> = enum_values.iter().filter_map(|word| word.as_str()).collect();
    let shown = written.as_str().map_or_else(|| written.to_string(), str::to_owned);
    let shown = tool::text::shorten(&shown, tool::text::MAX_QUOTED_CHARS);
    let fix = match tool::text::nearest_word(&shown, texts.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("one of {}", texts.join(", ")),
    };
    let message = format!("`{}` cannot be `{shown}`", last_segment(field));
    findings.add(DiagnosticCode::InvalidEnumValue, FieldPosition::node(node, field), &message, &fix);
}

fn check_mapping(
    node: &YamlNode,
    shape: &Map<String, Value>,
    field: &mut String,
    findings: &mut DiagnosticCollector<'_>,
) {
    let nothing = Map::new();
    let known = shape.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
    let required = shape.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str).filter(|name| node.get(name).is_none()) {
        with_field(field, &format!(".{name}"), |field| {
            let message = format!("`{name}` is missing");
            let about =
                known.get(name).and_then(|property| property.get("description")).and_then(Value::as_str);
            let fix =
                about.map_or_else(|| format!("add `{name}:`"), |about| format!("add `{name}:` ({about})"));
            findings.add(
                DiagnosticCode::MissingRequiredField,
                FieldPosition::node(node, field),
                &message,
                &fix,
            );
        });
    }
    for (key, value) in node.entries() {
        with_field(field, &format!(".{}", key.value), |field| match known.get(&key.value) {
            Some(property) => check(value, property, field, findings),
            None => match shape.get("additionalProperties") {
                Some(Value::Bool(false)) => report_unknown_key(key, known, field, findings),
                Some(others) => check(value, others, field, findings),
                None if known.is_empty() => {}
                None => report_ignored_key(key, known, field, findings),
            },
        });
    }
}

fn report_unknown_key(
    key: &strict_yaml::Located<String>,
    known: &Map<String, Value>,
    field: &str,
    findings: &mut DiagnosticCollector<'_>,
) {
    let names = || known.keys().map(String::as_str);
    let fix = match tool::text::nearest_word(key, names()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known here: {}", names().collect::<Vec<_>>().join(", ")),
    };
    // In the section of a server's key, an unknown word may be the key itself, so it is not quoted.
    let below_key = field.strip_prefix(KEY_FIELD).is_some_and(|rest| rest.starts_with('.'));
    let (message, field) = match below_key {
        true => ("unknown key".to_owned(), KEY_FIELD),
        false => (format!("unknown key `{}`", tool::text::shorten(key, tool::text::MAX_QUOTED_CHARS)), field),
    };
    findings.add(DiagnosticCode::UnknownField, FieldPosition::key(key, field), &message, &fix);
}

/// Reports an ignored key of an open mapping. A misspelt key that would decide something is an error, because a
/// validator in an ignored section would protect nothing.
fn report_ignored_key(
    key: &strict_yaml::Located<String>,
    known: &Map<String, Value>,
    field: &str,
    findings: &mut DiagnosticCollector<'_>,
) {
    if field.starts_with(SERVER_FIELD) && may_be_credential(key) {
        let message =
            format!("a manifest cannot set `{}`", tool::text::shorten(key, tool::text::MAX_QUOTED_CHARS));
        let fix = "name a key, and store it below `keys` in sinew.yaml: `key: {name: NAME}`";
        return findings.add(DiagnosticCode::UnknownField, FieldPosition::key(key, field), &message, fix);
    }
    let known_key = tool::text::nearest_word(key, known.keys().map(String::as_str));
    if !only_informs(field) && known_key.is_some_and(|known_key| DECIDING_KEYS.contains(&known_key)) {
        return report_unknown_key(key, known, field, findings);
    }
    let message = format!("`{}` is ignored", tool::text::shorten(key, tool::text::MAX_QUOTED_CHARS));
    let fix = known_key.map_or("remove it, or keep it as a note".to_owned(), |known_key| {
        format!("did you mean `{known_key}`?")
    });
    findings.add(DiagnosticCode::IgnoredField, FieldPosition::key(key, field), &message, &fix);
}

/// Returns true for the name of a setting that may contain a credential, or decides what is sent to a server.
fn may_be_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "password", "header", "bearer"].iter().any(|word| name.contains(word))
}

fn last_segment(field: &str) -> &str {
    field.rsplit('.').next().unwrap_or(field)
}

fn with_field(field: &mut String, part: &str, inner: impl FnOnce(&mut String)) {
    let length = field.len();
    field.push_str(if field.is_empty() { part.trim_start_matches('.') } else { part });
    inner(field);
    field.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    // A keyword that is not supported here would be enforced by editors only.
    #[test]
    fn every_schema_keyword_is_supported() {
        let understood = [
            "$schema",
            "$defs",
            "$ref",
            "title",
            "description",
            "default",
            "type",
            "properties",
            "required",
            "items",
            "additionalProperties",
            "enum",
            "oneOf",
            "const",
            "anyOf",
            "minLength",
            "minimum",
            "maximum",
            "format",
            "pattern",
        ];
        fn keywords(shape: &Value, found: &mut Vec<String>) {
            let Some(object) = shape.as_object() else { return };
            for (word, value) in object {
                found.push(word.clone());
                match (word.as_str(), value) {
                    ("properties" | "$defs", Value::Object(named)) => {
                        named.values().for_each(|shape| keywords(shape, found));
                    }
                    ("items" | "additionalProperties", shape) => keywords(shape, found),
                    ("oneOf" | "anyOf", Value::Array(shapes)) => {
                        shapes.iter().for_each(|shape| keywords(shape, found));
                    }
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        keywords(schema(), &mut found);
        assert!(found.len() > 100);
        for word in found {
            assert!(understood.contains(&word.as_str()), "`{word}` is in the schema and not supported");
        }
    }
}
