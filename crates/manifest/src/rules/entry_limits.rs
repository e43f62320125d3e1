//! Limits on the number of entries. Each command becomes a tool with a copy of shared parts, so a megabyte of
//! text could expand to thousands of times its size, and no person could review it before accepting it.

use strict_yaml::YamlNode;

use super::{commands, functions};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Maximum number of commands in a manifest.
const MAX_COMMANDS: usize = 256;
/// Maximum number of parameters of a command, and of words in its command line.
const MAX_PARAMETERS: usize = 128;
/// Maximum number of functions of a kind, anti-patterns, quirks, field mappings, and tools of a meta tool.
const MAX_ENTRIES: usize = 256;

/// Reports every list that exceeds its limit. Returns true if there is none; otherwise the other rules are
/// skipped.
pub(super) fn check_limits(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) -> bool {
    let before = findings.error_count();
    check_entries(tool, findings);
    check_commands(tool, findings);
    findings.error_count() == before
}

fn check_entries(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let section = |outer: &str, inner: &str| tool.get(outer).and_then(|outer| outer.get(inner));
    check_count(tool.get("commands"), "tool.commands", MAX_COMMANDS, findings);
    for kind in ["helpers", "processors", "validators"] {
        let field = format!("tool.executable_knowledge.{kind}");
        check_count(section("executable_knowledge", kind), &field, MAX_ENTRIES, findings);
    }
    for (outer, inner) in [
        ("api_complexity", "api_quirks"),
        ("api_complexity", "payload_schemas"),
        ("api_complexity", "field_mappings"),
        ("meta_specific", "aggregates"),
    ] {
        check_count(section(outer, inner), &format!("tool.{outer}.{inner}"), MAX_ENTRIES, findings);
    }
    for (name, group) in
        section("api_complexity", "field_mappings").map(YamlNode::entries).unwrap_or_default()
    {
        let field = format!(
            "tool.api_complexity.field_mappings.{}",
            tool::text::shorten(name, tool::text::MAX_QUOTED_CHARS)
        );
        check_count(Some(group), &field, MAX_ENTRIES, findings);
    }
    check_count(tool.get("anti_patterns"), "tool.anti_patterns", MAX_ENTRIES, findings);
    for (index, validator) in functions(tool, "validators").take(MAX_ENTRIES) {
        let field = format!("tool.executable_knowledge.validators[{index}].checks");
        check_count(validator.get("checks"), &field, MAX_ENTRIES, findings);
    }
}

fn check_commands(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    for (index, (_, command)) in commands(tool).take(MAX_COMMANDS).enumerate() {
        let field = |key: &str| format!("tool.commands[{index}].{key}");
        check_count(command.get("parameters"), &field("parameters"), MAX_PARAMETERS, findings);
        check_count(command.get("argv"), &field("argv"), MAX_PARAMETERS, findings);
        for part in command.get("argv").map(YamlNode::items).unwrap_or_default().iter().take(MAX_PARAMETERS) {
            check_count(Some(part), &field("argv"), MAX_PARAMETERS, findings);
        }
    }
}

fn check_count(list: Option<&YamlNode>, field: &str, max: usize, findings: &mut DiagnosticCollector<'_>) {
    let Some(list) = list else { return };
    let count = list.items().len().max(list.entries().len());
    if count > max {
        let list_name = field.rsplit('.').next().unwrap_or(field);
        let message = format!("`{list_name}` has {count} entries; the limit is {max}");
        findings.add(
            DiagnosticCode::InvalidValue,
            FieldPosition::node(list, field),
            &message,
            "split it into several manifests",
        );
    }
}
