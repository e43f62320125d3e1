//! Health check of a server. Without a usable one, no check is made.

use strict_yaml::{YamlNode, YamlNodeKind};

use super::{entry_mut, ignore, remove};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Methods of a health check.
const HEALTH_METHODS: [&str; 3] = ["tool_call", "command", "http"];

/// Converts the health check of a server's section.
pub(super) fn convert(section: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let Some(check) = entry_mut(section, "health_check") else { return };
    if !matches!(check.kind, YamlNodeKind::Mapping(_)) {
        let message = "`health_check` is not a mapping, so no check is made";
        ignore(findings, FieldPosition::node(check, "tool.mcp_specific.health_check"), message);
        remove(section, "health_check");
        return;
    }
    let method = check.get("method");
    if method.is_none_or(|method| !method.text().is_some_and(|word| HEALTH_METHODS.contains(&word))) {
        let message = "`health_check` has no known method, so no check is made";
        let at = FieldPosition::node(check, "tool.mcp_specific.health_check.method");
        let fix = "write `method: tool_call` with a `command` that only reads";
        findings.add(DiagnosticCode::IgnoredField, at, message, fix);
        remove(section, "health_check");
        return;
    }
    for (key, is_usable) in [
        ("command", check.get("command").is_none_or(|node| node.text().is_some())),
        ("timeout_ms", check.get("timeout_ms").is_none_or(is_whole_number)),
    ] {
        if let Some(value) = check.get(key).filter(|_| !is_usable) {
            let field = format!("tool.mcp_specific.health_check.{key}");
            ignore(
                findings,
                FieldPosition::node(value, &field),
                &format!("`{key}` is {}", value.kind_name()),
            );
            remove(check, key);
        }
    }
    let Some(expected) = check.get("expected_response") else { return };
    if !matches!(expected.kind, YamlNodeKind::Mapping(_)) {
        let message = "`expected_response` is not a mapping, so any answer without an error passes";
        let at = FieldPosition::node(expected, "tool.mcp_specific.health_check.expected_response");
        findings.add(
            DiagnosticCode::IgnoredField,
            at,
            message,
            "write the members that the answer must have",
        );
        remove(check, "expected_response");
    }
}

fn is_whole_number(node: &YamlNode) -> bool {
    matches!(&node.kind, YamlNodeKind::Number(number, _) if number.is_u64())
}
