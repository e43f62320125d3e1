//! Rules that a schema cannot express: names, functions, references, scenarios, and settings reserved for
//! policy.
//!
//! Each rule reads the tree and skips nodes of an unexpected type; the schema check has reported those.

mod amounts;
mod argv;
mod examples;
mod functions;
mod mappings;
mod names;
mod references;
mod servers;

pub(crate) use servers::lines_with_keys;

use strict_yaml::{Document, Node};

use crate::detect::SchemaVersion;
use crate::diagnostic::Code;
use crate::findings::{At, Findings};
use crate::load::CheckSyntax;

/// Keys by which a manifest would grant itself what only policy may grant.
const POWERS: [&str; 9] = [
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
pub(crate) struct Subject<'a> {
    pub(crate) document: &'a Document,
    pub(crate) tool: &'a Node,
    pub(crate) version: SchemaVersion,
    pub(crate) syntax: &'a CheckSyntax<'a>,
}

pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings<'_>) {
    if !amounts::fit(subject.tool, findings) {
        return;
    }
    powers(subject.tool, findings);
    sections(subject.tool, findings);
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

fn powers(tool: &Node, findings: &mut Findings<'_>) {
    let commands = tool.get("commands").map(Node::items).unwrap_or_default();
    for asking in std::iter::once(tool).chain(commands) {
        for (key, _) in asking.entries().iter().filter(|(key, _)| POWERS.contains(&key.as_str())) {
            let message = format!("a manifest cannot set `{}`: only policy may grant it", key.value);
            let fix = "remove it; `config/governance/tools.yaml` grants it, by the tool's name";
            findings.add(Code::UnknownField, At::key(key, &format!("tool.{}", key.value)), &message, fix);
        }
    }
}

fn sections(tool: &Node, findings: &mut Findings<'_>) {
    let Some(kind) = tool.get("type").and_then(Node::text) else { return };
    for other in ["mcp", "cli", "local", "meta"].into_iter().filter(|other| *other != kind) {
        let name = format!("{other}_specific");
        if let Some(key) = tool.key(&name) {
            let message = format!("`{name}` is ignored in a tool of type `{}`", tool::shorten(kind, 64));
            let fix = format!("remove it, or write `type: {other}`");
            findings.add(Code::IgnoredField, At::key(key, &format!("tool.{name}")), &message, &fix);
        }
    }
}

/// Returns the commands by name, each with its node.
fn commands(tool: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let commands = tool.get("commands").map(Node::items).unwrap_or_default().iter();
    commands.filter_map(|command| {
        let name = command.text().or_else(|| command.get("name").and_then(Node::text))?;
        Some((name, command))
    })
}

/// Returns the functions of one kind, each with its index.
fn functions<'a>(tool: &'a Node, kind: &str) -> impl Iterator<Item = (usize, &'a Node)> {
    let list = tool.get("executable_knowledge").and_then(|knowledge| knowledge.get(kind));
    list.map(Node::items).unwrap_or_default().iter().enumerate()
}
