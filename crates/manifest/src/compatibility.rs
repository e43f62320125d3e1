//! Converts the forms that public manifests use into those of the schema, before anything is checked.
//!
//! A section that only informs (anti-patterns, examples, notes) never stops a manifest: what cannot be read is
//! reported as ignored and removed. A section that decides what runs is converted only where its meaning is
//! clear; everything else is left as it is for the schema check.

mod commands;
mod servers;

use strict_yaml::{Located, YamlNode, YamlNodeKind};

use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Categories of anti-patterns in the specification.
const MISTAKE_CATEGORIES: [&str; 5] =
    ["api_usage", "validation", "error_handling", "performance", "security"];
/// Keys of a declarative check.
const CHECK_KEYS: [&str; 3] = ["required_fields", "format", "field"];
/// Formats of a declarative check.
const CHECK_FORMATS: [&str; 9] =
    ["email", "uri", "date", "time", "date-time", "uuid", "ipv4", "ipv6", "hostname"];

/// Converts the node below `tool`.
pub(crate) fn convert(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    convert_strategy(tool, findings);
    servers::convert(tool, findings);
    commands::convert(tool, findings);
    servers::remove_unusable_script(tool, findings);
    convert_anti_patterns(tool, findings);
    convert_checks(tool, findings);
    convert_examples(tool, findings);
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

fn convert_anti_patterns(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    for (index, pattern) in items_mut(entry_mut(tool, "anti_patterns")).enumerate() {
        let Some(category) = pattern.get("category") else { continue };
        let Some(text) = category.text().filter(|text| !MISTAKE_CATEGORIES.contains(text)) else { continue };
        let message = format!("the category `{}` is ignored", tool::shorten(text, tool::MAX_QUOTED_CHARS));
        let field = format!("tool.anti_patterns[{index}].category");
        let fix = format!("one of {}", MISTAKE_CATEGORIES.join(", "));
        findings.add(DiagnosticCode::IgnoredField, FieldPosition::node(category, &field), &message, &fix);
        remove(pattern, "category");
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
        let YamlNodeKind::List(items) = &mut checks.kind else {
            ignore(findings, FieldPosition::node(checks, &field), "`checks` is not a list");
            remove(validator, "checks");
            continue;
        };
        items.retain(|check| {
            let known = |key: &str| CHECK_KEYS.contains(&key);
            let has_known = check.entries().iter().any(|(key, _)| known(&key.value));
            let format = check.get("format").and_then(YamlNode::text);
            let is_format = format.is_none_or(|format| CHECK_FORMATS.contains(&format));
            if !has_known || !is_format {
                ignore(findings, FieldPosition::node(check, &field), "this kind of check is not supported");
            }
            has_known && is_format
        });
    }
}

fn convert_examples(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let Some(examples) = entry_mut(tool, "examples") else { return };
    if !matches!(examples.kind, YamlNodeKind::Mapping(_) | YamlNodeKind::List(_)) {
        let message =
            format!("`examples` is {}, not a list of examples for each command", examples.kind_name());
        ignore(findings, FieldPosition::node(examples, "tool.examples"), &message);
        remove(tool, "examples");
        return;
    }
    let YamlNodeKind::Mapping(commands) = &mut examples.kind else { return };
    for example in commands.iter_mut().flat_map(|(_, list)| items_mut(Some(list))) {
        let Some(error) = entry_mut(example, "error") else { continue };
        if error.text().is_some() {
            let message = std::mem::replace(&mut error.kind, YamlNodeKind::Mapping(Vec::new()));
            let message = YamlNode { line: error.line, column: error.column, kind: message };
            put(error, "message", message);
        }
        if let Some(code) = entry_mut(error, "code")
            && let YamlNodeKind::Number(_, text) = &code.kind
        {
            code.kind = YamlNodeKind::Text(text.clone());
        }
    }
}

/// Reports a value that is not read.
fn ignore(findings: &mut DiagnosticCollector<'_>, at: FieldPosition<'_>, message: &str) {
    findings.add(DiagnosticCode::IgnoredField, at, message, "see docs/manifests.md, or keep it as a note");
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
