//! Writes a layered tree as YAML text and notes the origin of each value.

use std::collections::BTreeMap;

use crate::document::{Document, Origin};
use crate::{YamlNode, YamlNodeKind};

use super::{LayeredKind, LayeredNode, merge};

/// Renders a tree. What was written on one line stays on one line; everything else gets a line of its own, so
/// that each line of the text has one origin.
pub(super) fn render(root: LayeredNode, name: &str) -> Document {
    let mut text = RenderedText { text: String::new(), line: 1, column: 1, origins: BTreeMap::new() };
    let root = without_changes(root);
    match as_flow(&root) {
        true => text.flow(&root),
        false => text.block(&root, 0),
    }
    text.push("\n");
    Document::rendered(name, text.text, text.origins)
}

struct RenderedText {
    text: String,
    line: u64,
    column: u64,
    origins: BTreeMap<(u64, u64), Origin>,
}

impl RenderedText {
    fn push(&mut self, part: &str) {
        self.text.push_str(part);
        for c in part.chars() {
            (self.line, self.column) =
                if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
    }

    /// Notes that the value which begins here was written at `origin`.
    fn mark(&mut self, origin: &Origin) {
        self.origins.insert((self.line, self.column), origin.clone());
    }

    fn new_line(&mut self, indent: usize) {
        self.push("\n");
        self.push(&" ".repeat(indent));
    }

    fn flow(&mut self, node: &LayeredNode) {
        self.mark(&node.origin);
        match &node.kind {
            LayeredKind::Scalar(scalar) => self.push(&scalar_text(scalar)),
            LayeredKind::List(items) => {
                self.push("[");
                for (at, item) in items.iter().enumerate() {
                    self.push(if at == 0 { "" } else { ", " });
                    self.flow(item);
                }
                self.push("]");
            }
            LayeredKind::Mapping(mapping) => {
                self.push("{");
                for (at, (key, value)) in mapping.entries.iter().enumerate() {
                    self.push(if at == 0 { "" } else { ", " });
                    self.mark(&key.origin);
                    self.push(&text_scalar(&key.name));
                    self.push(": ");
                    self.flow(value);
                }
                self.push("}");
            }
            // `without_changes` has turned every change into a list.
            LayeredKind::Change(_) => self.push("[]"),
        }
    }

    /// Writes a list or a mapping from the current column on, with further lines at this indentation.
    fn block(&mut self, node: &LayeredNode, indent: usize) {
        self.mark(&node.origin);
        match &node.kind {
            LayeredKind::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.new_line(indent);
                    }
                    self.push("- ");
                    match as_flow(item) {
                        true => self.flow(item),
                        false => self.block(item, indent + 2),
                    }
                }
            }
            LayeredKind::Mapping(mapping) => {
                for (at, (key, value)) in mapping.entries.iter().enumerate() {
                    if at > 0 {
                        self.new_line(indent);
                    }
                    self.mark(&key.origin);
                    self.push(&text_scalar(&key.name));
                    self.push(":");
                    if as_flow(value) {
                        self.push(" ");
                        self.flow(value);
                    } else {
                        self.new_line(indent + 2);
                        self.block(value, indent + 2);
                    }
                }
            }
            LayeredKind::Scalar(_) | LayeredKind::Change(_) => self.flow(node),
        }
    }
}

/// Returns true if a value is written on one line: it is a scalar or empty, or was on one line before.
fn as_flow(node: &LayeredNode) -> bool {
    let is_empty = match &node.kind {
        LayeredKind::Scalar(_) | LayeredKind::Change(_) => true,
        LayeredKind::List(items) => items.is_empty(),
        LayeredKind::Mapping(mapping) => mapping.entries.is_empty(),
    };
    is_empty || is_on_line_of(node, &node.origin)
}

fn is_on_line_of(node: &LayeredNode, line: &Origin) -> bool {
    let is_there =
        |origin: &Origin| origin.line == line.line && origin.document.name() == line.document.name();
    is_there(&node.origin)
        && match &node.kind {
            LayeredKind::Scalar(_) | LayeredKind::Change(_) => true,
            LayeredKind::List(items) => items.iter().all(|item| is_on_line_of(item, line)),
            LayeredKind::Mapping(mapping) => {
                mapping.entries.iter().all(|(key, value)| is_there(&key.origin) && is_on_line_of(value, line))
            }
        }
}

fn without_changes(node: LayeredNode) -> LayeredNode {
    let kind = match node.kind {
        LayeredKind::Change(change) => LayeredKind::List(merge::apply(Vec::new(), change, &mut Vec::new())),
        LayeredKind::Mapping(mut mapping) => {
            let entries = mapping.entries.into_iter().map(|(key, value)| (key, without_changes(value)));
            mapping.entries = entries.collect();
            LayeredKind::Mapping(mapping)
        }
        other => other,
    };
    LayeredNode { kind, ..node }
}

fn scalar_text(scalar: &YamlNodeKind) -> String {
    match scalar {
        YamlNodeKind::Text(text) => text_scalar(text),
        YamlNodeKind::Number(_, text) => text.clone(),
        YamlNodeKind::Boolean(value) => value.to_string(),
        other => YamlNode { line: 0, column: 0, kind: other.clone() }.to_json().to_string(),
    }
}

/// Writes a text so that it is read as the same text: unquoted where that is certain, else as a JSON string,
/// which is a double-quoted YAML string.
fn text_scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-$*+=".contains(c);
    let starts_plain =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '$' || c == '_');
    let is_reserved = matches!(text.to_ascii_lowercase().as_str(), "true" | "false" | "null");
    match starts_plain && !is_reserved && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => serde_json::Value::from(text).to_string(),
    }
}
