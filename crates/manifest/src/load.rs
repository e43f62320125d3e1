//! Loading of one manifest: parse the document, check all of it, and build the value if there are no errors.

use strict_yaml::{Document, Located, YamlNode, YamlNodeKind};

use crate::checked_manifest::{Manifest, ManifestPositions};
use crate::compatibility;
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};
use crate::manifest_file::ManifestFile;
use crate::rules::{self, RuleInput};
use crate::schema_check;
use crate::schema_version::{self, SchemaVersion};

/// Syntax error in a function, with its position in the function's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxProblem {
    /// Line number, from 1.
    pub line: usize,
    /// Column number, from 1.
    pub column: usize,
    /// Message of the parser.
    pub message: String,
}

/// Checks the syntax of a function. Supplied by the caller, because a parser of untrusted code belongs in a
/// sandbox.
pub type CheckSyntax<'a> = dyn Fn(&str) -> Result<(), SyntaxProblem> + Sync + 'a;

/// Loads a document. Returns the manifest, and all diagnostics. An error in a section that only informs costs its
/// entry; any other error costs the manifest.
pub fn load(document: &Document, syntax: &CheckSyntax<'_>) -> (Option<Manifest>, Vec<Diagnostic>) {
    let root = match document.tree_with_nulls() {
        Ok(root) => root,
        // Without a tree, the position of a key is unknown, so nothing of a file that mentions one is quoted.
        Err(error) if document.text().contains('@') || document.text().contains("key") => {
            return (None, vec![Diagnostic::unreadable(error.without_source(&["key", "name", "header"]))]);
        }
        Err(error) => return (None, vec![Diagnostic::unreadable(error)]),
    };
    let mut findings = DiagnosticCollector::new(document, rules::lines_with_secrets(&root));
    let manifest = check(document, root, syntax, &mut findings);
    let manifest = if findings.blocks_loading() { None } else { manifest };
    (manifest, findings.finish())
}

fn check(
    document: &Document,
    root: YamlNode,
    syntax: &CheckSyntax<'_>,
    findings: &mut DiagnosticCollector<'_>,
) -> Option<Manifest> {
    let mut root = keep_only_tool(root, findings)?;
    let version = schema_version::detect_version(root.get("tool")?);
    if let YamlNodeKind::Mapping(entries) = &mut root.kind {
        entries.iter_mut().for_each(|(_, tool)| compatibility::convert(tool, findings));
    }
    let root = match version {
        SchemaVersion::V1 => without_v2_sections(root, findings),
        SchemaVersion::V2 => root,
    };
    schema_check::check(&root, schema_check::schema(), &mut String::new(), findings);
    let tool = root.get("tool")?;
    rules::check(&RuleInput { document, tool, version, syntax }, findings);
    if findings.blocks_loading() {
        return None;
    }
    match serde_json::from_value::<ManifestFile>(root.to_json()) {
        Ok(file) => Manifest::new((document, positions(tool)), file.tool, version)
            .map_err(|(command, error)| {
                let node = tool
                    .get("commands")
                    .map(YamlNode::items)
                    .and_then(|list| list.get(command))
                    .unwrap_or(tool);
                let (field, fix) = (format!("tool.commands[{command}]"), "see docs/manifests.md");
                findings.add(
                    DiagnosticCode::InvalidValue,
                    FieldPosition::node(node, &field),
                    &error.to_string(),
                    fix,
                );
            })
            .ok(),
        // The schema is generated from these types, so this happens only if the two disagree.
        Err(error) => {
            findings.add(
                DiagnosticCode::InvalidValue,
                FieldPosition::node(tool, "tool"),
                &error.to_string(),
                "see docs/manifests.md",
            );
            None
        }
    }
}

fn positions(tool: &YamlNode) -> ManifestPositions {
    let position = |node: &YamlNode| (node.line, node.column);
    let aggregates = tool.get("meta_specific").and_then(|meta| meta.get("aggregates"));
    let knowledge = tool.get("executable_knowledge").map(YamlNode::entries).unwrap_or_default().iter();
    let functions = knowledge.flat_map(|(_, list)| list.items()).filter_map(|function| {
        Some((function.get("id")?.text()?.to_owned(), position(function.get("function")?)))
    });
    ManifestPositions {
        functions: functions.collect(),
        id: tool.get("id").map(position).unwrap_or_default(),
        aggregates: aggregates.map(YamlNode::items).unwrap_or_default().iter().map(position).collect(),
    }
}

/// Returns the root with `tool` only. Reports every other root key.
fn keep_only_tool(root: YamlNode, findings: &mut DiagnosticCollector<'_>) -> Option<YamlNode> {
    let YamlNodeKind::Mapping(entries) = root.kind else {
        let message = format!("a manifest is a mapping with the one key `tool`, not {}", root.kind_name());
        findings.add(
            DiagnosticCode::InvalidType,
            FieldPosition::node(&root, ""),
            &message,
            "begin with `tool:`",
        );
        return None;
    };
    let (tool, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key.value == "tool");
    let has_tool = !tool.is_empty();
    for (key, _) in &others {
        let at = FieldPosition::key(key, &key.value);
        let message =
            format!("`{}` is not allowed beside `tool`, the only root key", tool::text::shorten(key, 64));
        let fix = if has_tool { "move it below `tool`, or remove it" } else { "begin with `tool:`" };
        findings.add(DiagnosticCode::InvalidType, at, &message, fix);
    }
    let root = YamlNode { kind: YamlNodeKind::Mapping(tool), ..root };
    match root.get("tool").map(|tool| (matches!(tool.kind, YamlNodeKind::Mapping(_)), tool)) {
        Some((true, _)) => return Some(root),
        Some((false, tool)) => {
            let message = format!("`tool` must be a mapping, not {}", tool.kind_name());
            findings.add(
                DiagnosticCode::InvalidType,
                FieldPosition::node(tool, "tool"),
                &message,
                "give it `id:`, `type:` and so on",
            );
        }
        None => {
            let fix = "begin with `tool:` and put everything below it";
            findings.add(
                DiagnosticCode::MissingRequiredField,
                FieldPosition::node(&root, "tool"),
                "`tool` is missing",
                fix,
            );
        }
    }
    None
}

/// Removes the sections of 2.0, which 1.0 ignores, and the examples that do not have the form of 2.0: in 1.0 they
/// have any form.
fn without_v2_sections(root: YamlNode, findings: &mut DiagnosticCollector<'_>) -> YamlNode {
    let strip = |(key, node): (Located<String>, YamlNode)| {
        let YamlNodeKind::Mapping(entries) = node.kind else { return (key, node) };
        let mut retained = Vec::new();
        for (name, value) in entries {
            if schema_version::V2_SECTIONS.contains(&name.value.as_str()) {
                let message = format!("`{}` is ignored in schema 1.0", name.value);
                let field = format!("tool.{}", name.value);
                let fix = "write `schema_version: 2.0`, or remove it";
                findings.add(DiagnosticCode::IgnoredField, FieldPosition::key(&name, &field), &message, fix);
            } else if name.value != "examples" {
                retained.push((name, value));
            } else if let YamlNodeKind::Mapping(commands) = value.kind {
                let commands = commands.into_iter().map(|(command, list)| (command, complete_examples(list)));
                retained.push((name, YamlNode { kind: YamlNodeKind::Mapping(commands.collect()), ..value }));
            }
        }
        (key, YamlNode { kind: YamlNodeKind::Mapping(retained), ..node })
    };
    let YamlNodeKind::Mapping(entries) = root.kind else { return root };
    let entries = entries.into_iter().map(strip).collect();
    YamlNode { line: root.line, column: root.column, kind: YamlNodeKind::Mapping(entries) }
}

/// Returns the examples that have the form of 2.0.
fn complete_examples(list: YamlNode) -> YamlNode {
    let is_complete = |example: &YamlNode| {
        let input = example.get("input").map(|input| &input.kind);
        example.get("scenario").is_some_and(|scenario| scenario.text().is_some_and(|text| !text.is_empty()))
            && matches!(input, Some(YamlNodeKind::Mapping(_)))
    };
    let items = match list.kind {
        YamlNodeKind::List(items) => items.into_iter().filter(is_complete).collect(),
        _ => Vec::new(),
    };
    YamlNode { line: list.line, column: list.column, kind: YamlNodeKind::List(items) }
}
