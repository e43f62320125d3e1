//! Converts the forms that public manifests use into those of the schema, before anything is checked.
//!
//! A section that only informs (anti-patterns, examples, notes) never stops a manifest: what cannot be read is
//! reported as ignored and removed. A section that decides what runs is converted only where its meaning is
//! clear; everything else is left as it is for the schema check.

mod commands;
mod health_check;
mod informing;
mod null_values;
mod parameters;
mod servers;

use strict_yaml::{Located, YamlNode, YamlNodeKind};

use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Keys of a declarative check.
const CHECK_KEYS: [&str; 3] = ["required_fields", "format", "field"];
/// Formats of a declarative check.
const CHECK_FORMATS: [&str; 9] =
    ["email", "uri", "date", "time", "date-time", "uuid", "ipv4", "ipv6", "hostname"];

/// Converts the node below `tool`.
pub(crate) fn convert(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    null_values::convert(tool, "tool", findings);
    convert_strategy(tool, findings);
    servers::convert(tool, findings);
    commands::convert(tool, findings);
    servers::remove_unusable_program(tool, findings);
    convert_functions(tool);
    convert_checks(tool, findings);
    informing::convert(tool, findings);
}

/// Reads `declarative`, the word of version 1.0 files for knowledge in the file, as the default.
fn convert_strategy(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let strategy = tool.get("knowledge_strategy").filter(|node| node.text() == Some("declarative"));
    if let Some(strategy) = strategy {
        let message = "`declarative` is not a knowledge strategy; `embedded` is used";
        let at = FieldPosition::node(strategy, "tool.knowledge_strategy");
        findings.add(DiagnosticCode::IgnoredField, at, message, "write `knowledge_strategy: embedded`");
        remove(tool, "knowledge_strategy");
    }
}

/// Removes the checks of validators that Sinew does not know. The function of the validator runs in any case.
fn convert_checks(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let validators =
        entry_mut(tool, "executable_knowledge").and_then(|section| entry_mut(section, "validators"));
    for (index, validator) in items_mut(validators).enumerate() {
        let field = format!("tool.executable_knowledge.validators[{index}].checks");
        let has_function = validator.get("function").is_some();
        let Some(checks) = entry_mut(validator, "checks").filter(|_| has_function) else { continue };
        if matches!(checks.kind, YamlNodeKind::Mapping(_)) {
            checks.kind = YamlNodeKind::List(vec![checks.clone()]);
        }
        for fields in items_mut(Some(checks)).filter_map(|check| entry_mut(check, "required_fields")) {
            if fields.text().is_some() {
                fields.kind = YamlNodeKind::List(vec![fields.clone()]);
            }
        }
        let YamlNodeKind::List(items) = &mut checks.kind else {
            ignore(findings, FieldPosition::node(checks, &field), "`checks` is not a list");
            remove(validator, "checks");
            continue;
        };
        items.retain(|check| {
            let known = |key: &str| CHECK_KEYS.contains(&key);
            let has_known = check.entries().iter().any(|(key, _)| known(&key.value));
            let format = check.get("format").and_then(YamlNode::text);
            let is_supported = format.is_none_or(|format| CHECK_FORMATS.contains(&format));
            let fields = check.get("required_fields");
            let is_supported =
                is_supported && fields.is_none_or(|fields| matches!(fields.kind, YamlNodeKind::List(_)));
            if !has_known || !is_supported {
                ignore(findings, FieldPosition::node(check, &field), "this kind of check is not supported");
            }
            has_known && is_supported
        });
    }
}

/// Converts functions that are listed by their id.
fn convert_functions(tool: &mut YamlNode) {
    let Some(section) = entry_mut(tool, "executable_knowledge") else { return };
    for kind in ["helpers", "processors", "validators"] {
        if let Some(list) =
            entry_mut(section, kind).filter(|list| matches!(list.kind, YamlNodeKind::Mapping(_)))
        {
            list.kind = YamlNodeKind::List(named_entries(list.clone(), "id"));
        }
    }
}

/// Reports a value that is not read.
fn ignore(findings: &mut DiagnosticCollector<'_>, at: FieldPosition<'_>, message: &str) {
    findings.add(DiagnosticCode::IgnoredField, at, message, "see docs/manifests.md, or keep it as a note");
}

/// Returns the items of a list, or the values of a mapping with their keys as the value of `key`.
fn named_entries(node: YamlNode, key: &str) -> Vec<YamlNode> {
    match node.kind {
        YamlNodeKind::List(items) => items,
        YamlNodeKind::Mapping(entries) => {
            let named = |(name, value): (Located<String>, YamlNode)| {
                let mut entry = match value.kind {
                    YamlNodeKind::Mapping(_) => value,
                    YamlNodeKind::Text(_) => mapping_at(&value.clone(), vec![("description", value)]),
                    _ => mapping_at(&value, Vec::new()),
                };
                let named = [key, "name", "id"].iter().any(|key| entry.get(key).is_some());
                if !named || key == "pattern" || key == "quirk" {
                    let (line, column) = (name.line, name.column);
                    put(&mut entry, key, YamlNode { line, column, kind: YamlNodeKind::Text(name.value) });
                }
                entry
            };
            entries.into_iter().map(named).collect()
        }
        _ => Vec::new(),
    }
}

fn entry_mut<'n>(node: &'n mut YamlNode, key: &str) -> Option<&'n mut YamlNode> {
    let YamlNodeKind::Mapping(entries) = &mut node.kind else { return None };
    entries.iter_mut().find(|(known, _)| known.value == key).map(|(_, value)| value)
}

fn items_mut(node: Option<&mut YamlNode>) -> impl Iterator<Item = &mut YamlNode> {
    let items = match node.map(|node| &mut node.kind) {
        Some(YamlNodeKind::List(items)) => items.as_mut_slice(),
        _ => &mut [],
    };
    items.iter_mut()
}

fn remove(node: &mut YamlNode, key: &str) -> Option<YamlNode> {
    let YamlNodeKind::Mapping(entries) = &mut node.kind else { return None };
    let index = entries.iter().position(|(known, _)| known.value == key)?;
    Some(entries.remove(index).1)
}

/// Adds an entry at the position of its value.
fn put(node: &mut YamlNode, key: &str, value: YamlNode) {
    if let YamlNodeKind::Mapping(entries) = &mut node.kind {
        entries.push((Located { value: key.to_owned(), line: value.line, column: value.column }, value));
    }
}

/// Creates a text node at the position of another node.
fn text_at(node: &YamlNode, text: &str) -> YamlNode {
    YamlNode { line: node.line, column: node.column, kind: YamlNodeKind::Text(text.to_owned()) }
}

/// Creates a mapping at the position of another node.
fn mapping_at(node: &YamlNode, entries: Vec<(&str, YamlNode)>) -> YamlNode {
    let located = |(key, value): (&str, YamlNode)| {
        (Located { value: key.to_owned(), line: value.line, column: value.column }, value)
    };
    let kind = YamlNodeKind::Mapping(entries.into_iter().map(located).collect());
    YamlNode { line: node.line, column: node.column, kind }
}
