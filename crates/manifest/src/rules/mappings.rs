//! Checks of field mappings, one or two levels deep, and of the rules that detect payload forms.

use strict_yaml::{Node, NodeKind};

use crate::api::Detection;
use crate::diagnostic::Code;
use crate::findings::{At, Findings};

pub(super) fn check(tool: &Node, findings: &mut Findings<'_>) {
    for (name, field, mapping) in mappings(tool) {
        if !matches!(mapping.kind, NodeKind::Mapping(_)) {
            let message = format!("the mapping `{name}` must be a mapping, not {}", mapping.kind_name());
            findings.add(Code::InvalidType, At::node(mapping, &field), &message, "give it `structure:`");
        } else if mapping.get("structure").is_none() && mapping.get("extraction").is_none() {
            let message = format!("the mapping `{name}` has neither `structure` nor `extraction`");
            let fix = "add `structure:` with the form of its value, or `extraction: helpers.ID`";
            findings.add(Code::MissingRequiredField, At::node(mapping, &field), &message, fix);
        }
    }
    let schemas = tool.get("api_complexity").and_then(|api| api.get("payload_schemas"));
    for (index, schema) in schemas.map(Node::items).unwrap_or_default().iter().enumerate() {
        let Some(detection) = schema.get("detection") else { continue };
        let text = detection.text().unwrap_or_default();
        if !text.trim().is_empty() && Detection::parse(text).is_none() {
            let field = format!("tool.api_complexity.payload_schemas[{index}].detection");
            let fix = "write `NAME field exists`, `NAME field` or `NAME == VALUE`; NAME may have dots";
            let message = "is not a detection rule, so this form is never recognised";
            findings.add(Code::IgnoredField, At::node(detection, &field), message, fix);
        }
    }
}

/// Returns each mapping with its name and field path, inside and outside groups.
pub(super) fn mappings(tool: &Node) -> Vec<(&str, String, &Node)> {
    let Some(all) = tool.get("api_complexity").and_then(|api| api.get("field_mappings")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, node) in all.entries() {
        let field = format!("tool.api_complexity.field_mappings.{}", key.value);
        let own = ["structure", "extraction", "note"].iter().any(|word| node.get(word).is_some());
        if own || node.entries().is_empty() {
            found.push((key.as_str(), field, node));
            continue;
        }
        let inner = node.entries().iter();
        found.extend(inner.map(|(key, node)| (key.as_str(), format!("{field}.{}", key.value), node)));
    }
    found
}
