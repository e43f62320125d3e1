//! Parameters of a command: declared ones in the forms of public manifests, and lists that only name and describe
//! the arguments.

use strict_yaml::{YamlNode, YamlNodeKind};

use super::{entry_mut, ignore, items_mut, mapping_at, put, remove, text_at};
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// JSON types that a parameter may state.
const JSON_TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
/// Other words for JSON types.
const TYPE_WORDS: [(&str, &str); 11] = [
    ("str", "string"),
    ("text", "string"),
    ("int", "integer"),
    ("float", "number"),
    ("bool", "boolean"),
    ("list", "array"),
    ("map", "object"),
    ("dict", "object"),
    ("json", "object"),
    ("string[]", "array"),
    ("number[]", "array"),
];
/// Keys of a declared parameter.
const PARAMETER_KEYS: [&str; 7] = ["name", "type", "description", "required", "default", "format", "schema"];
/// JSON Schema keywords that a parameter may state beside its type.
const SCHEMA_KEYWORDS: [&str; 10] = [
    "enum",
    "minimum",
    "maximum",
    "items",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "properties",
];

/// Converts the parameters of a command.
pub(super) fn convert(command: &mut YamlNode, field: &str, findings: &mut DiagnosticCollector<'_>) {
    let field = format!("{field}.parameters");
    for parameter in items_mut(entry_mut(command, "parameters")) {
        if parameter.get("name").is_some() {
            convert_declared(parameter, &field, findings);
        }
    }
    let has_argv = command.get("argv").is_some();
    let lacks_type = |item: &YamlNode| item.get("name").is_some() && item.get("type").is_none();
    let items = command.get("parameters").map(YamlNode::items).unwrap_or_default();
    // The parameters of `argv` are checked in full.
    if !has_argv && items.iter().any(lacks_type) {
        describe_declared(command);
    }
    let parameters = command.get("parameters");
    let is_described = parameters.is_some_and(|parameters| match &parameters.kind {
        YamlNodeKind::List(items) => !items.iter().any(|item| item.get("name").is_some()),
        YamlNodeKind::Mapping(_) => true,
        YamlNodeKind::Text(_) | YamlNodeKind::Number(..) | YamlNodeKind::Boolean(_) | YamlNodeKind::Null => {
            false
        }
    });
    if is_described {
        convert_described(command);
    } else if let Some(parameters) = parameters.filter(|node| node.text().is_some()) {
        ignore(findings, FieldPosition::node(parameters, &field), "`parameters` is text, not a list");
        remove(command, "parameters");
    }
}

/// Converts a declared parameter: other words for types, schema keywords beside the type, and notes.
fn convert_declared(parameter: &mut YamlNode, field: &str, findings: &mut DiagnosticCollector<'_>) {
    if let Some(stated) = entry_mut(parameter, "type") {
        let word = stated.text().map(str::to_ascii_lowercase).unwrap_or_default();
        let known = TYPE_WORDS.iter().find(|(other, _)| *other == word).map(|(_, word)| *word);
        match known.or_else(|| JSON_TYPES.into_iter().find(|known| *known == word)) {
            Some(known) => stated.kind = YamlNodeKind::Text(known.to_owned()),
            None => {
                let message = "this type is not a JSON type, so any value is accepted";
                ignore(findings, FieldPosition::node(stated, field), message);
                remove(parameter, "type");
            }
        }
    }
    let YamlNodeKind::Mapping(entries) = &mut parameter.kind else { return };
    let (known, others): (Vec<_>, Vec<_>) =
        std::mem::take(entries).into_iter().partition(|(key, _)| PARAMETER_KEYS.contains(&key.as_str()));
    *entries = known;
    let (keywords, notes): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|(key, _)| SCHEMA_KEYWORDS.contains(&key.as_str()));
    for (key, _) in &notes {
        let message =
            format!("`{}` of a parameter is ignored", tool::text::shorten(key, tool::text::MAX_QUOTED_CHARS));
        ignore(findings, FieldPosition::key(key, field), &message);
    }
    if keywords.is_empty() {
        return;
    }
    if parameter.get("schema").is_none() {
        put(parameter, "schema", mapping_at(parameter, Vec::new()));
    }
    if let Some(schema) = entry_mut(parameter, "schema") {
        keywords.into_iter().for_each(|(key, value)| put(schema, &key.value, value));
    }
}

/// Converts declared parameters, of which one has no type, into described ones. Only a stated `required` applies.
fn describe_declared(command: &mut YamlNode) {
    let Some(parameters) = entry_mut(command, "parameters") else { return };
    let described: Vec<(String, YamlNode)> = parameters
        .items()
        .iter()
        .filter_map(|item| Some((item.get("name")?.text()?.to_owned(), item.clone())))
        .collect();
    let entries = described.iter().map(|(name, item)| (name.as_str(), item.clone())).collect();
    *parameters = mapping_at(parameters, entries);
}

/// Converts `parameters` that name and describe the arguments, without a schema, into an open `input_schema`. A
/// description does not make an argument required.
fn convert_described(command: &mut YamlNode) {
    let Some(parameters) = command.get("parameters") else { return };
    let described: Vec<(String, YamlNode)> = match &parameters.kind {
        YamlNodeKind::List(items) => items.iter().flat_map(described_arguments).collect(),
        YamlNodeKind::Mapping(_) => described_arguments(parameters),
        _ => return,
    };
    let is_empty_list = parameters.items().is_empty() && parameters.entries().is_empty();
    let Some(parameters) = (if is_empty_list { None } else { remove(command, "parameters") }) else { return };
    let mut required = Vec::new();
    let mut properties = Vec::new();
    for (name, value) in &described {
        if value.get("required").is_some_and(|node| node.kind == YamlNodeKind::Boolean(true)) {
            required.push(text_at(value, name));
        }
        properties.push((name.as_str(), property_of(value)));
    }
    let mut schema = mapping_at(
        &parameters,
        vec![("type", text_at(&parameters, "object")), ("properties", mapping_at(&parameters, properties))],
    );
    if !required.is_empty() {
        let (line, column) = (parameters.line, parameters.column);
        put(&mut schema, "required", YamlNode { line, column, kind: YamlNodeKind::List(required) });
    }
    put(command, "input_schema", schema);
}

/// Returns the arguments that an item describes: `name: description`, `name: {…}`, or only `name`.
fn described_arguments(item: &YamlNode) -> Vec<(String, YamlNode)> {
    match &item.kind {
        YamlNodeKind::Text(name) => vec![(name.clone(), mapping_at(item, Vec::new()))],
        _ => item.entries().iter().map(|(key, value)| (key.value.clone(), value.clone())).collect(),
    }
}

fn property_of(value: &YamlNode) -> YamlNode {
    let description = match value.text() {
        Some(_) => Some(value),
        None => value.get("description").filter(|node| node.text().is_some()),
    };
    let kind = value.get("type").filter(|node| node.text().is_some_and(|text| JSON_TYPES.contains(&text)));
    let mut entries = Vec::new();
    entries.extend(kind.map(|node| ("type", node.clone())));
    entries.extend(description.map(|node| ("description", node.clone())));
    mapping_at(value, entries)
}
