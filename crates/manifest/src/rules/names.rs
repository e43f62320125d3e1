//! Checks of naming conventions and duplicate names.

use std::collections::HashMap;

use strict_yaml::Node;

use super::{commands, functions};
use crate::diagnostic::Code;
use crate::findings::{At, Findings};

/// Names of parameters that are probably paths.
const PATHS: [&str; 5] = ["path", "file_path", "directory", "destination", "cwd"];

pub(super) fn check(tool: &Node, findings: &mut Findings<'_>) {
    if let Some(id) = tool.get("id") {
        kebab(id, "tool.id", findings);
    }
    for kind in ["helpers", "processors", "validators"] {
        let ids = functions(tool, kind).filter_map(|(index, function)| Some((index, function.get("id")?)));
        let mut seen = HashMap::new();
        for (index, id) in ids {
            let field = format!("tool.executable_knowledge.{kind}[{index}].id");
            kebab(id, &field, findings);
            once(id, id.text(), &mut seen, &field, findings);
        }
    }
    let mut seen = HashMap::new();
    for (index, (name, node)) in commands(tool).enumerate() {
        let field = format!("tool.commands[{index}].name");
        let at = node.get("name").unwrap_or(node);
        if !(is_joined(name, '_') || is_joined(name, '-')) {
            let message = format!("the command `{}` is neither snake_case nor kebab-case", shown(name));
            findings.add(Code::NamingConvention, At::node(at, &field), &message, &rewrite(name, '_'));
        }
        once(at, Some(name), &mut seen, &field, findings);
        parameters(node, index, findings);
    }
}

fn kebab(id: &Node, field: &str, findings: &mut Findings<'_>) {
    let Some(text) = id.text().filter(|text| !text.trim().is_empty() && !is_joined(text, '-')) else {
        return;
    };
    let message = format!("the id `{}` is not kebab-case", shown(text));
    findings.add(Code::NamingConvention, At::node(id, field), &message, &rewrite(text, '-'));
}

fn once<'t>(
    node: &Node,
    name: Option<&'t str>,
    seen: &mut HashMap<&'t str, u64>,
    field: &str,
    findings: &mut Findings<'_>,
) {
    let Some(name) = name else { return };
    if let Some(first) = seen.insert(name, node.line) {
        let message = format!("`{}` occurs twice, first on line {first}", shown(name));
        findings.add(
            Code::DuplicateId,
            At::node(node, field),
            &message,
            "rename one of the two, or remove it",
        );
    }
}

fn parameters(command: &Node, index: usize, findings: &mut Findings<'_>) {
    for parameter in command.get("parameters").map(Node::items).unwrap_or_default() {
        let name = parameter.get("name").and_then(Node::text).unwrap_or_default();
        let is_text = parameter.get("type").and_then(Node::text) == Some("string");
        if is_text && PATHS.contains(&name) && parameter.get("format").is_none() {
            let field = format!("tool.commands[{index}].parameters.{name}");
            let message = format!("`{name}` looks like a path but is not covered by the path rules");
            findings.add(Code::NamingConvention, At::node(parameter, &field), &message, "add `format: path`");
        }
    }
}

/// Returns true for lower-case words and digits joined by single `joint` characters.
pub(super) fn is_joined(name: &str, joint: char) -> bool {
    let word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.split(joint).all(word)
}

fn rewrite(name: &str, joint: char) -> String {
    let mut out = String::new();
    for c in name.chars().take(tool::LONGEST_WORD) {
        let is_word = c.is_ascii_alphanumeric();
        if (!is_word || c.is_ascii_uppercase()) && !out.is_empty() && !out.ends_with(joint) {
            out.push(joint);
        }
        if is_word {
            out.push(c.to_ascii_lowercase());
        }
    }
    format!("write `{}`", out.trim_matches(joint))
}

fn shown(name: &str) -> std::borrow::Cow<'_, str> {
    tool::shorten(name, tool::LONGEST_WORD)
}
