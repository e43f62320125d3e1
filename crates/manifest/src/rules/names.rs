//! Checks of naming conventions and duplicate names.

use std::collections::HashMap;

use strict_yaml::YamlNode;

use super::{commands, functions};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Names of parameters that are probably paths.
const PATH_NAMES: [&str; 5] = ["path", "file_path", "directory", "destination", "cwd"];

pub(super) fn check(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    if let Some(id) = tool.get("id") {
        check_kebab_case(id, "tool.id", findings);
    }
    for kind in ["helpers", "processors", "validators"] {
        let ids = functions(tool, kind).filter_map(|(index, function)| Some((index, function.get("id")?)));
        let mut seen = HashMap::new();
        for (index, id) in ids {
            let field = format!("tool.executable_knowledge.{kind}[{index}].id");
            check_kebab_case(id, &field, findings);
            check_unique(id, id.text(), &mut seen, &field, findings);
        }
    }
    let mut seen = HashMap::new();
    for (index, (name, node)) in commands(tool).enumerate() {
        let field = format!("tool.commands[{index}].name");
        let at = node.get("name").unwrap_or(node);
        // A command of a program may be its words: `gh pr list`.
        let is_line = name.split(' ').all(|word| is_joined(word, '_') || is_joined(word, '-'));
        if !is_line {
            let message =
                format!("the command `{}` is neither snake_case nor kebab-case", shortened_name(name));
            findings.add(
                DiagnosticCode::NamingConvention,
                FieldPosition::node(at, &field),
                &message,
                &suggested_name(name, '_'),
            );
        }
        check_unique(at, Some(name), &mut seen, &field, findings);
        check_path_parameters(node, index, findings);
    }
}

fn check_kebab_case(id: &YamlNode, field: &str, findings: &mut DiagnosticCollector<'_>) {
    let Some(text) = id.text().filter(|text| !text.trim().is_empty() && !is_joined(text, '-')) else {
        return;
    };
    let message = format!("the id `{}` is not kebab-case", shortened_name(text));
    findings.add(
        DiagnosticCode::NamingConvention,
        FieldPosition::node(id, field),
        &message,
        &suggested_name(text, '-'),
    );
}

fn check_unique<'t>(
    node: &YamlNode,
    name: Option<&'t str>,
    seen: &mut HashMap<&'t str, u64>,
    field: &str,
    findings: &mut DiagnosticCollector<'_>,
) {
    let Some(name) = name else { return };
    if let Some(first) = seen.insert(name, node.line) {
        let message = format!("`{}` occurs twice, first on line {first}", shortened_name(name));
        findings.add(
            DiagnosticCode::DuplicateId,
            FieldPosition::node(node, field),
            &message,
            "rename one of the two, or remove it",
        );
    }
}

fn check_path_parameters(command: &YamlNode, index: usize, findings: &mut DiagnosticCollector<'_>) {
    for parameter in command.get("parameters").map(YamlNode::items).unwrap_or_default() {
        let name = parameter.get("name").and_then(YamlNode::text).unwrap_or_default();
        let is_text = parameter.get("type").and_then(YamlNode::text) == Some("string");
        if is_text && PATH_NAMES.contains(&name) && parameter.get("format").is_none() {
            let field = format!("tool.commands[{index}].parameters.{name}");
            let message = format!("`{name}` looks like a path but is not covered by the path rules");
            findings.add(
                DiagnosticCode::NamingConvention,
                FieldPosition::node(parameter, &field),
                &message,
                "add `format: path`",
            );
        }
    }
}

/// Returns true for lower-case words and digits joined by single `joint` characters.
pub(super) fn is_joined(name: &str, joint: char) -> bool {
    let word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.split(joint).all(word)
}

fn suggested_name(name: &str, joint: char) -> String {
    let mut out = String::new();
    for c in name.chars().take(tool::text::MAX_QUOTED_CHARS) {
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

fn shortened_name(name: &str) -> std::borrow::Cow<'_, str> {
    tool::text::shorten(name, tool::text::MAX_QUOTED_CHARS)
}
