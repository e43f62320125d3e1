//! Values that are absent or null. A key that only informs is left out; a key that decides what runs is an error,
//! because its content may have been lost.

use strict_yaml::{Located, YamlNode, YamlNodeKind};

use super::{ignore, mapping_at};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DECIDING_KEYS, DiagnosticCollector, FieldPosition};

/// Keys whose value is data, in which null is a value.
const DATA_KEYS: [&str; 7] =
    ["output", "error", "input_schema", "output_schema", "schema", "structure", "expected_response"];
/// Keys for which null has the meaning of absence, without a warning: the schema check reports a required one.
const ABSENT_KEYS: [&str; 7] = ["id", "type", "name", "version", "description", "schema_version", "default"];

/// Keys that decide something and whose absence is the strictest reading, or adds nothing.
const SAFELY_ABSENT_KEYS: [&str; 7] =
    ["category", "commands", "environment_variables", "helpers", "parameters", "processors", "risk_level"];

/// Removes the null values below a node.
pub(super) fn convert(node: &mut YamlNode, field: &str, findings: &mut DiagnosticCollector<'_>) {
    match &mut node.kind {
        YamlNodeKind::Mapping(entries) => entries.retain_mut(|(key, value)| {
            let field = format!("{field}.{}", key.value);
            keeps_entry((key, value), &field, findings)
        }),
        YamlNodeKind::List(items) => {
            let mut index = 0;
            items.retain_mut(|item| {
                let field = format!("{field}[{index}]");
                index += 1;
                if item.kind == YamlNodeKind::Null {
                    ignore(findings, FieldPosition::node(item, &field), "an item has no value");
                    return false;
                }
                convert(item, &field, findings);
                true
            });
        }
        _ => {}
    }
}

fn keeps_entry(
    (key, value): (&Located<String>, &mut YamlNode),
    field: &str,
    findings: &mut DiagnosticCollector<'_>,
) -> bool {
    let is_null = value.kind == YamlNodeKind::Null;
    let name = key.as_str();
    match name {
        // A call without arguments.
        "input" if is_null => *value = mapping_at(value, Vec::new()),
        "input" => {}
        _ if DATA_KEYS.contains(&name) && !DECIDING_KEYS.contains(&name) => {
            return !is_null || name == "output";
        }
        _ if DATA_KEYS.contains(&name) && !is_null => {}
        _ if !is_null => convert(value, field, findings),
        _ if ABSENT_KEYS.contains(&name) => return false,
        _ => {
            // The word may be a secret that was written in place of a name.
            let (message, field) = match findings.is_hidden_line(key.line) {
                true => ("a key has no value".to_owned(), "tool.mcp_specific"),
                false => (
                    format!("`{}` has no value", tool::text::shorten(name, tool::text::MAX_QUOTED_CHARS)),
                    field,
                ),
            };
            let at = FieldPosition::key(key, field);
            let fix = "give it a value, [] for an empty list, or remove it";
            let code = match DECIDING_KEYS.contains(&name) && !SAFELY_ABSENT_KEYS.contains(&name) {
                true => DiagnosticCode::MissingRequiredField,
                false => DiagnosticCode::IgnoredField,
            };
            findings.add(code, at, &message, fix);
            return false;
        }
    }
    true
}
