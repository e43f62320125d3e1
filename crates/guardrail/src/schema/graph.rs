//! Schema as a graph: which subschemas are applied to the same value, and which to the values inside it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;

/// Maximum number of subschemas, more than any known tool needs.
pub(super) const MAX_SUBSCHEMAS: usize = 4096;

/// Keywords whose subschemas are applied to the value itself.
const SAME_VALUE_SINGLE: [&str; 4] = ["not", "if", "then", "else"];
const SAME_VALUE_LIST: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const SAME_VALUE_MAP: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords that reference a subschema to apply to the value itself.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose subschemas are applied to the values inside, under any key.
const CHILD_VALUE: [&str; 8] = [
    "additionalProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that evaluate all their sibling keywords once more.
const EVALUATED_TWICE: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];
/// Keywords that give a subschema a name.
const ANCHORS: [&str; 2] = ["$anchor", "$dynamicAnchor"];

/// Subschema.
#[derive(Default)]
pub(super) struct SchemaNode<'s> {
    /// Subschemas applied to the same value.
    pub(super) same_value: Vec<usize>,
    /// Subschemas applied to the value under this key, or under any key.
    pub(super) children: Vec<(Option<&'s str>, usize)>,
    pub(super) is_evaluated_twice: bool,
}

/// All reachable subschemas, the root first.
pub(super) struct SchemaGraph<'s> {
    pub(super) nodes: Vec<SchemaNode<'s>>,
    root: &'s Value,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    /// Node numbers by address, so that a subschema reached twice is one node.
    node_by_address: HashMap<*const Value, usize>,
    to_visit: Vec<&'s Value>,
}

impl<'s> SchemaGraph<'s> {
    pub(super) fn build(root: &'s Value) -> Result<Self, SchemaError> {
        let mut anchors = HashMap::new();
        find_anchors(root, &mut anchors);
        let mut graph = SchemaGraph {
            nodes: Vec::new(),
            root,
            anchors,
            node_by_address: HashMap::new(),
            to_visit: Vec::new(),
        };
        graph.node_index(root);
        while let Some(schema) = graph.to_visit.pop() {
            if graph.nodes.len() > MAX_SUBSCHEMAS {
                return Err(SchemaError::TooExpensive);
            }
            if let (Value::Object(map), Some(index)) =
                (schema, graph.node_by_address.get(&std::ptr::from_ref(schema)).copied())
            {
                let node = graph.visit(map, index)?;
                if let Some(slot) = graph.nodes.get_mut(index) {
                    *slot = node;
                }
            }
        }
        Ok(graph)
    }

    /// Returns the number of a subschema, and adds it if it is new.
    fn node_index(&mut self, schema: &'s Value) -> usize {
        let next = self.nodes.len();
        let index = *self.node_by_address.entry(std::ptr::from_ref(schema)).or_insert(next);
        if index == next {
            self.nodes.push(SchemaNode::default());
            self.to_visit.push(schema);
        }
        index
    }

    fn visit(&mut self, map: &'s Map<String, Value>, index: usize) -> Result<SchemaNode<'s>, SchemaError> {
        let id = map.get("$id").and_then(Value::as_str);
        if index > 0 && id.is_some_and(|id| !id.starts_with('#')) {
            return Err(SchemaError::Invalid("a subschema has a `$id` of its own".to_owned()));
        }
        let mut here: Vec<&Value> = SAME_VALUE_SINGLE.iter().filter_map(|word| map.get(*word)).collect();
        here.extend(SAME_VALUE_LIST.iter().filter_map(|word| map.get(*word)?.as_array()).flatten());
        here.extend(
            SAME_VALUE_MAP.iter().filter_map(|word| map.get(*word)?.as_object()).flat_map(Map::values),
        );
        for word in REFERENCES {
            if let Some(Value::String(reference)) = map.get(word) {
                here.extend(self.reference_targets(reference));
            }
        }
        let properties = map.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut children: Vec<(Option<&str>, &Value)> =
            properties.map(|(key, schema)| (Some(key.as_str()), schema)).collect();
        let patterns = map.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
        children.extend(patterns.map(|(_, schema)| (None, schema)));
        for schema in CHILD_VALUE.iter().filter_map(|word| map.get(*word)) {
            match schema {
                Value::Array(each) => children.extend(each.iter().map(|schema| (None, schema))),
                one => children.push((None, one)),
            }
        }
        Ok(SchemaNode {
            same_value: here.into_iter().map(|schema| self.node_index(schema)).collect(),
            children: children.into_iter().map(|(key, schema)| (key, self.node_index(schema))).collect(),
            is_evaluated_twice: EVALUATED_TWICE.iter().any(|word| map.contains_key(*word)),
        })
    }

    /// Returns the targets of a reference inside this schema. External references are not read; the validator
    /// reports them.
    fn reference_targets(&self, reference: &str) -> Vec<&'s Value> {
        let id = self.root.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
        let local = reference.strip_prefix(id).unwrap_or(reference);
        match local.strip_prefix('#').unwrap_or(local) {
            "" => vec![self.root],
            pointer if pointer.starts_with('/') => {
                self.root.pointer(&percent_decode(pointer)).into_iter().collect()
            }
            name => self.anchors.get(name).cloned().unwrap_or_default(),
        }
    }
}

fn find_anchors<'s>(value: &'s Value, anchors: &mut HashMap<&'s str, Vec<&'s Value>>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| find_anchors(item, anchors)),
        Value::Object(map) => {
            let names = ANCHORS.iter().filter_map(|word| map.get(*word)?.as_str());
            let old = ["$id", "id"].iter().filter_map(|word| map.get(*word)?.as_str()?.strip_prefix('#'));
            names.chain(old).for_each(|name| anchors.entry(name).or_default().push(value));
            map.values().for_each(|child| find_anchors(child, anchors));
        }
        _ => {}
    }
}

/// Decodes percent-encoding in a URI fragment.
fn percent_decode(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.filter(|_| *byte == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
