//! Checks of references within a manifest: a validator for a command that does not exist would never run.

use strict_yaml::YamlNode;
use tool::Category;

use super::{RuleInput, commands, functions, mappings};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};
use crate::schema_version::SchemaVersion;

/// Maximum number of names listed in a fix.
const MAX_LISTED_NAMES: usize = 16;

pub(super) fn check(subject: &RuleInput<'_>, findings: &mut DiagnosticCollector<'_>) {
    let tool = subject.tool;
    if subject.version == SchemaVersion::V2 {
        for (name, field, mapping) in mappings::mappings(tool) {
            if let Some(extraction) = mapping.get("extraction") {
                check_helper(tool, extraction, &format!("{field}.extraction"), name, findings);
            }
        }
        check_validated_commands(tool, findings);
    }
    let orchestration = tool.get("meta_specific").and_then(|meta| meta.get("orchestration"));
    if let Some(orchestration) = orchestration {
        check_helper(tool, orchestration, "tool.meta_specific.orchestration", "orchestration", findings);
    }
    check_processors(tool, findings);
    check_health_command(tool, findings);
}

/// Checks the health check command. Sinew calls it without a request, so it must be a read-only command of
/// this manifest.
fn check_health_command(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let check = tool.get("mcp_specific").and_then(|section| section.get("health_check"));
    let is_call = |check: &&YamlNode| check.get("method").and_then(YamlNode::text) == Some("tool_call");
    let Some(reference) = check.filter(is_call).and_then(|check| check.get("command")) else { return };
    let Some(name) = reference.text() else { return };
    let category = |command: &YamlNode| command.get("category").and_then(YamlNode::text).map(str::to_owned);
    let listed = commands(tool).find(|(known, _)| *known == name).map(|(_, command)| category(command));
    let (message, fix) = match listed {
        Some(Some(category)) if category == Category::READ_ONLY.as_str() => return,
        Some(_) => ("it may change something", "give the command `category: read_only`"),
        None => ("it is not a command of this manifest", "list it with `category: read_only`"),
    };
    let name = tool::text::shorten(name, tool::text::MAX_QUOTED_CHARS);
    let message = format!("`{name}` is not called as a health check: {message}");
    let at = FieldPosition::node(reference, "tool.mcp_specific.health_check.command");
    findings.add(DiagnosticCode::IgnoredField, at, &message, fix);
}

/// Checks a reference `helpers.ID`.
fn check_helper(
    tool: &YamlNode,
    reference: &YamlNode,
    field: &str,
    owner: &str,
    findings: &mut DiagnosticCollector<'_>,
) {
    let Some(text) = reference.text() else {
        let message = format!("the reference of `{owner}` must be text, not {}", reference.kind_name());
        return findings.add(
            DiagnosticCode::InvalidType,
            FieldPosition::node(reference, field),
            &message,
            "write `helpers.ID`",
        );
    };
    let known = ids(tool, "helpers");
    match text.strip_prefix("helpers.") {
        Some(id) if known.contains(&id) => {}
        _ => report_unresolved(reference, text, &known, "helpers.", field, findings),
    }
}

/// Checks the commands that validators refer to. A validator of another command never runs.
fn check_validated_commands(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let known: Vec<&str> = commands(tool).map(|(name, _)| name).collect();
    if known.is_empty() {
        return;
    }
    for (index, validator) in functions(tool, "validators") {
        let Some(validates) = validator.get("validates") else { continue };
        let Some(text) = validates.text().filter(|text| !known.contains(text)) else { continue };
        let field = format!("tool.executable_knowledge.validators[{index}].validates");
        let name = tool::text::shorten(text, tool::text::MAX_QUOTED_CHARS);
        let message = format!("this validator never runs: `{name}` is not a command of this manifest");
        let fix = match tool::text::nearest_word(text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("add `{name}` to `commands`"),
        };
        findings.add(DiagnosticCode::IgnoredField, FieldPosition::node(validates, &field), &message, &fix);
    }
}

/// Checks the processors of commands. A meta tool has no input processor, because its helper builds the
/// arguments of the tools it calls.
fn check_processors(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let known = ids(tool, "processors");
    let is_meta = tool.get("type").and_then(YamlNode::text) == Some("meta");
    for (index, (_, command)) in commands(tool).enumerate() {
        if let Some(key) = command.key("process_input").filter(|_| is_meta) {
            let message = "a tool of type `meta` cannot use `process_input`: its helper decides the calls";
            let fix = "remove it, and let the `orchestration` helper do this";
            let field = format!("tool.commands[{index}].process_input");
            findings.add(DiagnosticCode::InvalidValue, FieldPosition::key(key, &field), message, fix);
        }
        for key in ["process_input", "process_output"] {
            let Some(reference) = command.get(key) else { continue };
            let Some(text) = reference.text().filter(|text| !known.contains(text)) else { continue };
            report_unresolved(
                reference,
                text,
                &known,
                "",
                &format!("tool.commands[{index}].{key}"),
                findings,
            );
        }
    }
}

fn ids<'t>(tool: &'t YamlNode, kind: &str) -> Vec<&'t str> {
    functions(tool, kind).filter_map(|(_, function)| function.get("id")?.text()).collect()
}

fn report_unresolved(
    reference: &YamlNode,
    text: &str,
    known: &[&str],
    prefix: &str,
    field: &str,
    findings: &mut DiagnosticCollector<'_>,
) {
    let wanted = text.strip_prefix(prefix).unwrap_or(text);
    let fix = match tool::text::nearest_word(wanted, known.iter().copied()) {
        Some(near) => format!("did you mean `{prefix}{near}`?"),
        None if known.is_empty() => "this manifest defines none".to_owned(),
        None => format!(
            "defined here: {}",
            known
                .iter()
                .take(MAX_LISTED_NAMES)
                .map(|id| format!("{prefix}{id}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let message = format!("`{}` is not defined", tool::text::shorten(text, tool::text::MAX_QUOTED_CHARS));
    findings.add(DiagnosticCode::UnresolvedReference, FieldPosition::node(reference, field), &message, &fix);
}
