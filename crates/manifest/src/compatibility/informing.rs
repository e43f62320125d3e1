//! Sections that only inform: API description, anti-patterns and examples. A value of another kind is converted
//! where its meaning is clear, and reported and removed elsewhere. It never keeps a manifest from loading.

use serde_json::{Map, Value};
use strict_yaml::{Located, YamlNode, YamlNodeKind};

use super::{entry_mut, ignore, items_mut, named_entries, put, remove};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};
use crate::schema_check::{admits, allowed_values, resolve, schema};

/// Sections, each with the schema of its value below `tool`.
const SECTIONS: [&str; 3] = ["api_complexity", "anti_patterns", "examples"];

/// Categories of anti-patterns in the specification.
const MISTAKE_CATEGORIES: [&str; 5] =
    ["api_usage", "validation", "error_handling", "performance", "security"];

/// Converts the sections of a tool.
pub(super) fn convert(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    list_named_entries(entry_mut(tool, "anti_patterns"), "pattern");
    if let Some(api) = entry_mut(tool, "api_complexity") {
        list_named_entries(entry_mut(api, "payload_schemas"), "type");
        list_named_entries(entry_mut(api, "api_quirks"), "quirk");
    }
    convert_categories(tool, findings);
    convert_examples(tool);
    for name in SECTIONS {
        let shape = schema().pointer(&format!("/$defs/ToolFile/properties/{name}"));
        let (Some(section), Some(shape)) = (entry_mut(tool, name), shape) else { continue };
        let field = format!("tool.{name}");
        if !fit(section, shape, &field, findings) {
            report(section, &format!("`{name}`"), &field, findings);
            remove(tool, name);
        }
    }
}

/// Converts a mapping from names to entries into a list.
fn list_named_entries(node: Option<&mut YamlNode>, key: &str) {
    if let Some(node) = node.filter(|node| matches!(node.kind, YamlNodeKind::Mapping(_))) {
        node.kind = YamlNodeKind::List(named_entries(node.clone(), key));
    }
}

/// Removes the categories of anti-patterns that the specification does not list.
fn convert_categories(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    for (index, pattern) in items_mut(entry_mut(tool, "anti_patterns")).enumerate() {
        let Some(category) = pattern.get("category") else { continue };
        let text = category.text().unwrap_or(category.kind_name());
        if MISTAKE_CATEGORIES.contains(&text) {
            continue;
        }
        let message =
            format!("the category `{}` is ignored", tool::text::shorten(text, tool::text::MAX_QUOTED_CHARS));
        let field = format!("tool.anti_patterns[{index}].category");
        let fix = format!("one of {}", MISTAKE_CATEGORIES.join(", "));
        findings.add(DiagnosticCode::IgnoredField, FieldPosition::node(category, &field), &message, &fix);
        remove(pattern, "category");
    }
}

/// Converts examples that are listed with their command, and a single example of a command.
fn convert_examples(tool: &mut YamlNode) {
    let Some(examples) = entry_mut(tool, "examples") else { return };
    let command_of = |item: &YamlNode| item.get("command").and_then(YamlNode::text).map(str::to_owned);
    if examples.items().iter().any(|item| command_of(item).is_some() && item.get("input").is_some()) {
        let mut by_command = YamlNode { kind: YamlNodeKind::Mapping(Vec::new()), ..examples.clone() };
        for item in examples.items() {
            let Some(command) = command_of(item) else { continue };
            if by_command.get(&command).is_none() {
                put(
                    &mut by_command,
                    &command,
                    YamlNode { kind: YamlNodeKind::List(Vec::new()), ..item.clone() },
                );
            }
            if let Some(YamlNodeKind::List(list)) =
                entry_mut(&mut by_command, &command).map(|node| &mut node.kind)
            {
                let mut item = item.clone();
                remove(&mut item, "command");
                list.push(item);
            }
        }
        *examples = by_command;
    }
    let YamlNodeKind::Mapping(commands) = &mut examples.kind else { return };
    for (_, list) in commands.iter_mut() {
        if list.get("input").is_some() || list.get("scenario").is_some() {
            let single = list.clone();
            list.kind = YamlNodeKind::List(vec![single]);
        }
        for example in items_mut(Some(list)) {
            // An error may be stated as text only.
            if let Some(error) = entry_mut(example, "error")
                && error.text().is_some()
            {
                let message = YamlNode { kind: YamlNodeKind::Mapping(Vec::new()), ..error.clone() };
                let message = std::mem::replace(error, message);
                put(error, "message", message);
            }
        }
    }
}

/// Fits a value to a schema: text is made from other kinds, and optional parts of another kind are removed.
/// Returns false if the value itself is of another kind.
fn fit(node: &mut YamlNode, shape: &Value, field: &str, findings: &mut DiagnosticCollector<'_>) -> bool {
    let Some(shape) = resolve(node, shape) else { return false };
    if allowed_values(shape).is_some() {
        return true;
    }
    if !admits(shape, node) {
        return to_text(node, shape);
    }
    match &mut node.kind {
        YamlNodeKind::Mapping(entries) => {
            entries.retain_mut(|entry| fit_entry(entry, shape, field, findings))
        }
        YamlNodeKind::List(items) => {
            let item_shape = shape.get("items").unwrap_or(&Value::Bool(true));
            let mut index = 0;
            items.retain_mut(|item| {
                let field = format!("{field}[{index}]");
                index += 1;
                let fits = fit(item, item_shape, &field, findings);
                if !fits {
                    report(item, "this entry", &field, findings);
                }
                fits
            });
        }
        _ => {}
    }
    true
}

/// Fits an entry of a mapping. Returns false if it is to be removed.
fn fit_entry(
    (key, value): &mut (Located<String>, YamlNode),
    shape: &Map<String, Value>,
    field: &str,
    findings: &mut DiagnosticCollector<'_>,
) -> bool {
    let known = shape.get("properties").and_then(|properties| properties.get(&key.value));
    let Some(shape_of_value) = known.or_else(|| shape.get("additionalProperties")) else { return true };
    let field = format!("{field}.{}", key.value);
    if shape_of_value.is_boolean() || fit(value, shape_of_value, &field, findings) {
        return true;
    }
    let required = shape.get("required").and_then(Value::as_array).into_iter().flatten();
    // The schema check reports a required value.
    if required.filter_map(Value::as_str).any(|name| name == key.value) {
        return true;
    }
    report(value, &format!("`{}`", key.value), &field, findings);
    false
}

/// Converts a value to text, if the schema asks for text.
fn to_text(node: &mut YamlNode, shape: &Map<String, Value>) -> bool {
    let is_string_type = |word: &Value| word == "string";
    let is_text = shape.get("type").is_some_and(|kind| {
        is_string_type(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_string_type))
    });
    if is_text {
        let text = match &node.kind {
            YamlNodeKind::Number(_, text) => text.clone(),
            _ => node.to_json().to_string(),
        };
        node.kind = YamlNodeKind::Text(text);
    }
    is_text
}

fn report(node: &YamlNode, name: &str, field: &str, findings: &mut DiagnosticCollector<'_>) {
    let name = tool::text::shorten(name, tool::text::MAX_QUOTED_CHARS);
    let message = format!("{name} is {}, which is not read here", node.kind_name());
    ignore(findings, FieldPosition::node(node, field), &message);
}
