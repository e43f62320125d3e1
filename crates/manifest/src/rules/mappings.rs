//! Checks of field mappings, one or two levels deep, and of the rules that detect payload forms.

use strict_yaml::{YamlNode, YamlNodeKind};

use crate::api::PayloadDetection;
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

pub(super) fn check(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    for (name, field, mapping) in mappings(tool) {
        if !matches!(mapping.kind, YamlNodeKind::Mapping(_)) {
            let message = format!("the mapping `{name}` must be a mapping, not {}", mapping.kind_name());
            findings.add(
                DiagnosticCode::InvalidType,
                FieldPosition::node(mapping, &field),
                &message,
                "give it `structure:`",
            );
        } else if mapping.get("structure").is_none() && mapping.get("extraction").is_none() {
            let message = format!("the mapping `{name}` has neither `structure` nor `extraction`");
            let fix = "add `structure:` with the form of its value, or `extraction: helpers.ID`";
            findings.add(
                DiagnosticCode::MissingRequiredField,
                FieldPosition::node(mapping, &field),
                &message,
                fix,
            );
        }
    }
    let schemas = tool.get("api_complexity").and_then(|api| api.get("payload_schemas"));
    for (index, schema) in schemas.map(YamlNode::items).unwrap_or_default().iter().enumerate() {
        let Some(detection) = schema.get("detection") else { continue };
        let text = detection.text().unwrap_or_default();
        if !text.trim().is_empty() && PayloadDetection::parse(text).is_none() {
            let field = format!("tool.api_complexity.payload_schemas[{index}].detection");
            let fix = "write `NAME field exists`, `NAME field` or `NAME == VALUE`; NAME may have dots";
            let message = "is not a detection rule, so this form is never recognised";
            findings.add(DiagnosticCode::IgnoredField, FieldPosition::node(detection, &field), message, fix);
        }
    }
}

/// Returns each mapping with its name and field path, inside and outside groups.
pub(super) fn mappings(tool: &YamlNode) -> Vec<(&str, String, &YamlNode)> {
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
