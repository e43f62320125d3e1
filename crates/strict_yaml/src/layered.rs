//! Trees of several documents merged into one: a later document overrides an earlier one key by key, and
//! every value keeps the document and the position it was written at.
//!
//! A list replaces a list; `{add: […]}` extends it and `{remove: […]}` shortens it. Merging is associative:
//! layers can be merged in any grouping with the same result. The crate that owns a file decides which
//! documents are merged and in which order.

mod merge;
mod render;

pub use merge::merge;
use schemars::Schema;
use serde_json::{Map, Value, json};

use crate::document::Origin;
use crate::{Document, DocumentError, YamlNode, YamlNodeKind};

/// Value of a layered tree, with the place it was written at.
#[derive(Clone, Debug)]
pub struct LayeredNode {
    /// Document and position.
    pub origin: Origin,
    /// Content.
    pub kind: LayeredKind,
}

/// Kinds of values of a layered tree.
#[derive(Clone, Debug)]
pub enum LayeredKind {
    /// Text, number or boolean.
    Scalar(YamlNodeKind),
    /// A list, which replaces the list below it.
    List(Vec<LayeredNode>),
    /// A mapping, which is merged key by key with the mapping below it.
    Mapping(LayeredMapping),
    /// A change of the list below it.
    Change(ListChange),
}

/// Mapping of a layered tree, in file order.
#[derive(Clone, Debug, Default)]
pub struct LayeredMapping {
    /// Keys and values.
    pub entries: Vec<(LayeredKey, LayeredNode)>,
    /// True if it replaces the value below it as a whole.
    pub replaces: bool,
}

/// Key with the place it was written at.
#[derive(Clone, Debug)]
pub struct LayeredKey {
    /// Document and position.
    pub origin: Origin,
    /// Name of the key.
    pub name: String,
}

/// Items to remove from a list and to add to it, in this order.
#[derive(Clone, Debug, Default)]
pub struct ListChange {
    /// Items to remove.
    pub remove: Vec<LayeredNode>,
    /// Items to add at the end, unless the list has them.
    pub add: Vec<LayeredNode>,
}

impl LayeredNode {
    /// Parses a document. The values of the keys in `opaque` are data: they replace each other as a whole,
    /// and `add` or `remove` in them have no meaning.
    pub fn read(document: &Document, opaque: &[&str]) -> Result<LayeredNode, DocumentError> {
        Ok(convert(document, &document.tree()?, opaque, Content::Rules))
    }

    /// Returns the entries of a mapping; empty for other kinds.
    pub fn entries(&self) -> &[(LayeredKey, LayeredNode)] {
        match &self.kind {
            LayeredKind::Mapping(mapping) => &mapping.entries,
            _ => &[],
        }
    }

    /// Returns the value of a key, if this is a mapping that contains it.
    pub fn get(&self, name: &str) -> Option<&LayeredNode> {
        self.entries().iter().find(|(key, _)| key.name == name).map(|(_, value)| value)
    }

    /// Removes a key and returns its value, if this is a mapping that contains it.
    pub fn take(&mut self, name: &str) -> Option<LayeredNode> {
        let LayeredKind::Mapping(mapping) = &mut self.kind else { return None };
        let at = mapping.entries.iter().position(|(key, _)| key.name == name)?;
        Some(mapping.entries.remove(at).1)
    }

    /// Returns the text, if it is text.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            LayeredKind::Scalar(YamlNodeKind::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Converts to JSON, without positions. A change of a list becomes the mapping it was written as.
    pub fn to_json(&self) -> Value {
        let list = |items: &[LayeredNode]| items.iter().map(LayeredNode::to_json).collect::<Value>();
        match &self.kind {
            LayeredKind::Scalar(kind) => YamlNode { line: 0, column: 0, kind: kind.clone() }.to_json(),
            LayeredKind::List(items) => list(items),
            LayeredKind::Mapping(mapping) => {
                let entries = mapping.entries.iter().map(|(key, value)| (key.name.clone(), value.to_json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
            LayeredKind::Change(change) => {
                let parts = [("remove", &change.remove), ("add", &change.add)];
                let parts = parts.into_iter().filter(|(_, items)| !items.is_empty());
                Value::Object(parts.map(|(key, items)| (key.to_owned(), list(items))).collect())
            }
        }
    }

    /// Creates an error at this value.
    pub fn error(&self, message: &str) -> DocumentError {
        self.origin.error(message)
    }

    /// Renders the tree as a document, in which every position leads back to the place a value was written
    /// at. A change without a list below it becomes a list.
    pub fn into_document(self, name: &str) -> Document {
        render::render(self, name)
    }
}

/// Meaning of a subtree.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Rules, merged key by key.
    Rules,
    /// Data, replaced as a whole.
    Data,
}

fn convert(document: &Document, node: &YamlNode, opaque: &[&str], content: Content) -> LayeredNode {
    let origin = |line, column| Origin { document: document.clone(), line, column };
    let list = |items: &[YamlNode]| -> Vec<LayeredNode> {
        // The items of a list are never merged with others, so they are data.
        items.iter().map(|item| convert(document, item, opaque, Content::Data)).collect()
    };
    let kind = match &node.kind {
        YamlNodeKind::List(items) => LayeredKind::List(list(items)),
        YamlNodeKind::Mapping(entries) if content == Content::Rules && is_change(entries) => {
            let part = |key: &str| node.get(key).map(|items| list(items.items())).unwrap_or_default();
            LayeredKind::Change(ListChange { remove: part("remove"), add: part("add") })
        }
        YamlNodeKind::Mapping(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                let is_data = content == Content::Data || opaque.contains(&key.value.as_str());
                let content = if is_data { Content::Data } else { Content::Rules };
                let name = LayeredKey { origin: origin(key.line, key.column), name: key.value.clone() };
                (name, convert(document, value, opaque, content))
            });
            LayeredKind::Mapping(LayeredMapping {
                entries: entries.collect(),
                replaces: content == Content::Data,
            })
        }
        scalar => LayeredKind::Scalar(scalar.clone()),
    };
    LayeredNode { origin: origin(node.line, node.column), kind }
}

/// Returns true for `{add: […]}`, `{remove: […]}` and both together.
fn is_change(entries: &[(crate::Located<String>, YamlNode)]) -> bool {
    let is_part = |(key, value): &(crate::Located<String>, YamlNode)| {
        matches!(key.value.as_str(), "add" | "remove") && matches!(value.kind, YamlNodeKind::List(_))
    };
    !entries.is_empty() && entries.iter().all(is_part)
}

/// Changes the schema of a mapping so that it accepts `{add: […]}` and `{remove: […]}` in place of each list,
/// and requires no key: the layer below has it.
pub fn allow_list_changes(schema: &mut Schema) {
    schema.remove("required");
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        let is_list = match property.get("type") {
            Some(Value::String(kind)) => kind == "array",
            Some(Value::Array(kinds)) => kinds.contains(&json!("array")),
            _ => false,
        };
        // Examples are replaced as a whole.
        if is_list && name != "examples" {
            let mut list = property.take();
            let description = list.as_object_mut().and_then(|list| list.remove("description"));
            let change = json!({"type": "object", "minProperties": 1, "additionalProperties": false,
                "properties": {"add": list, "remove": list}});
            *property = json!({"anyOf": [list, change]});
            if let (Some(description), Some(property)) = (description, property.as_object_mut()) {
                property.insert("description".to_owned(), description);
            }
        }
    }
}

#[cfg(test)]
mod tests;
