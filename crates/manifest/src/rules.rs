//! Rules that a schema cannot express: names, functions, references, scenarios, and settings reserved for
//! policy.
//!
//! Each rule reads the tree and skips nodes of an unexpected type; the schema check has reported those.

mod argv;
mod entry_limits;
mod examples;
mod functions;
mod mappings;
mod names;
mod references;
mod servers;

pub(crate) use servers::lines_with_secrets;

use strict_yaml::{Document, YamlNode};

use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};
use crate::load::CheckSyntax;
use crate::schema_version::SchemaVersion;

/// Keys by which a manifest would grant itself what only policy may grant.
const POLICY_ONLY_KEYS: [&str; 9] = [
    "sandbox",
    "network",
    "env",
    "environment",
    "approval",
    "permissions",
    "privileged",
    "unconfined",
    "sudo",
];

/// Input of the rules.
pub(crate) struct RuleInput<'a> {
    pub(crate) document: &'a Document,
    pub(crate) tool: &'a YamlNode,
    pub(crate) version: SchemaVersion,
    pub(crate) syntax: &'a CheckSyntax<'a>,
}

pub(crate) fn check(subject: &RuleInput<'_>, findings: &mut DiagnosticCollector<'_>) {
    if !entry_limits::check_limits(subject.tool, findings) {
        return;
    }
    check_policy_only_keys(subject.tool, findings);
    check_type_sections(subject.tool, findings);
    servers::check(subject.tool, findings);
    names::check(subject.tool, findings);
    argv::check(subject.tool, findings);
    if subject.version == SchemaVersion::V2 {
        functions::check(subject, findings);
        mappings::check(subject.tool, findings);
        examples::check(subject.tool, findings);
    }
    references::check(subject, findings);
}

fn check_policy_only_keys(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let commands = tool.get("commands").map(YamlNode::items).unwrap_or_default();
    let sections = ["mcp_specific", "cli_specific", "local_specific"].iter().filter_map(|key| tool.get(key));
    for section in std::iter::once(tool).chain(commands).chain(sections) {
        for (key, _) in section.entries().iter().filter(|(key, _)| POLICY_ONLY_KEYS.contains(&key.as_str())) {
            let message = format!("a manifest cannot set `{}`: only policy may grant it", key.value);
            let fix = "remove it; `config/governance/tools.yaml` grants it, by the tool's name";
            findings.add(
                DiagnosticCode::UnknownField,
                FieldPosition::key(key, &format!("tool.{}", key.value)),
                &message,
                fix,
            );
        }
    }
}

fn check_type_sections(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let Some(kind) = tool.get("type").and_then(YamlNode::text) else { return };
    for other in ["mcp", "cli", "local", "meta"].into_iter().filter(|other| *other != kind) {
        let name = format!("{other}_specific");
        if let Some(key) = tool.key(&name) {
            let message =
                format!("`{name}` is ignored in a tool of type `{}`", tool::text::shorten(kind, 64));
            let fix = format!("remove it, or write `type: {other}`");
            findings.add(
                DiagnosticCode::IgnoredField,
                FieldPosition::key(key, &format!("tool.{name}")),
                &message,
                &fix,
            );
        }
    }
}

/// Returns the commands by name, each with its node.
fn commands(tool: &YamlNode) -> impl Iterator<Item = (&str, &YamlNode)> {
    let commands = tool.get("commands").map(YamlNode::items).unwrap_or_default().iter();
    commands.filter_map(|command| {
        let name = command.text().or_else(|| command.get("name").and_then(YamlNode::text))?;
        Some((name, command))
    })
}

/// Returns the functions of one kind, each with its index.
fn functions<'a>(tool: &'a YamlNode, kind: &str) -> impl Iterator<Item = (usize, &'a YamlNode)> {
    let list = tool.get("executable_knowledge").and_then(|knowledge| knowledge.get(kind));
    list.map(YamlNode::items).unwrap_or_default().iter().enumerate()
}
