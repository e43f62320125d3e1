//! Limits on the number of entries. Each command becomes a tool with a copy of shared parts, so a megabyte of
//! text could expand to thousands of times its size, and no person could review it before accepting it.

use strict_yaml::Node;

use super::{commands, functions};
use crate::diagnostic::Code;
use crate::findings::{At, Findings};

/// Maximum number of commands in a manifest.
const MOST_COMMANDS: usize = 256;
/// Maximum number of parameters of a command, and of words in its command line.
const MOST_PARAMETERS: usize = 128;
/// Maximum number of functions of a kind, anti-patterns, quirks, field mappings, and tools of a meta tool.
const MOST_ENTRIES: usize = 256;

/// Reports every list that exceeds its limit. Returns true if there is none; otherwise the other rules are
/// skipped.
pub(super) fn fit(tool: &Node, findings: &mut Findings<'_>) -> bool {
    let before = findings.errors();
    entries(tool, findings);
    each_command(tool, findings);
    findings.errors() == before
}

fn entries(tool: &Node, findings: &mut Findings<'_>) {
    let section = |outer: &str, inner: &str| tool.get(outer).and_then(|outer| outer.get(inner));
    most(tool.get("commands"), "tool.commands", MOST_COMMANDS, findings);
    for kind in ["helpers", "processors", "validators"] {
        let field = format!("tool.executable_knowledge.{kind}");
        most(section("executable_knowledge", kind), &field, MOST_ENTRIES, findings);
    }
    for (outer, inner) in [
        ("api_complexity", "api_quirks"),
        ("api_complexity", "payload_schemas"),
        ("api_complexity", "field_mappings"),
        ("meta_specific", "aggregates"),
    ] {
        most(section(outer, inner), &format!("tool.{outer}.{inner}"), MOST_ENTRIES, findings);
    }
    for (name, group) in section("api_complexity", "field_mappings").map(Node::entries).unwrap_or_default() {
        let field = format!("tool.api_complexity.field_mappings.{}", tool::shorten(name, tool::LONGEST_WORD));
        most(Some(group), &field, MOST_ENTRIES, findings);
    }
    most(tool.get("anti_patterns"), "tool.anti_patterns", MOST_ENTRIES, findings);
    for (index, validator) in functions(tool, "validators").take(MOST_ENTRIES) {
        let field = format!("tool.executable_knowledge.validators[{index}].checks");
        most(validator.get("checks"), &field, MOST_ENTRIES, findings);
    }
}

fn each_command(tool: &Node, findings: &mut Findings<'_>) {
    for (index, (_, command)) in commands(tool).take(MOST_COMMANDS).enumerate() {
        let field = |key: &str| format!("tool.commands[{index}].{key}");
        most(command.get("parameters"), &field("parameters"), MOST_PARAMETERS, findings);
        most(command.get("argv"), &field("argv"), MOST_PARAMETERS, findings);
        for part in command.get("argv").map(Node::items).unwrap_or_default().iter().take(MOST_PARAMETERS) {
            most(Some(part), &field("argv"), MOST_PARAMETERS, findings);
        }
    }
}

fn most(list: Option<&Node>, field: &str, most: usize, findings: &mut Findings<'_>) {
    let Some(list) = list else { return };
    let count = list.items().len().max(list.entries().len());
    if count > most {
        let what = field.rsplit('.').next().unwrap_or(field);
        let message = format!("`{what}` has {count} entries; the limit is {most}");
        findings.add(Code::InvalidValue, At::node(list, field), &message, "split it into several manifests");
    }
}
