//! Named sets: lists that are defined once in `tools.yaml` and used by `"@name"` in any list of their kind.
//!
//! They are replaced by their items before layers are merged, so that `{remove: […]}` also applies to an item
//! of a set. An item keeps the line of the set that it is written at.

use strict_yaml::DocumentError;
use strict_yaml::layered::{self, LayeredKind, LayeredNode};
use tool::text::nearest_word;

use super::FileLayers;

/// Kinds of sets, with the key of their definitions and the keys of the lists they are used in.
const SET_KINDS: [(&str, &[&str]); 3] = [
    (
        "path_sets",
        &[
            "allowed_paths",
            "forbidden_paths",
            "forbidden_paths_except",
            "unattended_paths",
            "program_folders",
        ],
    ),
    ("command_sets", &["allowed_commands", "forbidden_commands"]),
    ("host_sets", &["allowed_domains", "blocked_domains"]),
];

/// Sets by kind and name.
#[derive(Default)]
pub(crate) struct NamedSets(Vec<(&'static str, String, Vec<LayeredNode>)>);

impl NamedSets {
    /// Collects the sets of `tools.yaml`, merged over its layers.
    pub(super) fn of(tools: &FileLayers, errors: &mut Vec<DocumentError>) -> Self {
        let merged = match tools.user.clone() {
            Some(user) => layered::merge(tools.base.clone(), user, &mut Vec::new()),
            None => tools.base.clone(),
        };
        let mut sets = NamedSets::default();
        for (kind, _) in SET_KINDS {
            for (key, value) in merged.get(kind).into_iter().flat_map(LayeredNode::entries) {
                let items = match &value.kind {
                    LayeredKind::List(items) => items.clone(),
                    LayeredKind::Change(change) => change.add.clone(),
                    // The raw file type reports it.
                    LayeredKind::Scalar(_) | LayeredKind::Mapping(_) => continue,
                };
                let nested = items.iter().filter(|item| set_name(item).is_some());
                errors.extend(nested.map(|item| item.error("a set cannot contain another set")));
                sets.0.push((kind, key.name.clone(), items));
            }
        }
        sets
    }

    /// Replaces the names of sets in every list below a mapping.
    pub(super) fn expand(&self, node: &mut LayeredNode, errors: &mut Vec<DocumentError>) {
        let LayeredKind::Mapping(mapping) = &mut node.kind else { return };
        for (key, value) in &mut mapping.entries {
            let kind = SET_KINDS.iter().find(|(_, lists)| lists.contains(&key.name.as_str()));
            match (&mut value.kind, kind) {
                (LayeredKind::List(items), Some((kind, _))) => self.expand_list(kind, items, errors),
                (LayeredKind::Change(change), Some((kind, _))) => {
                    self.expand_list(kind, &mut change.remove, errors);
                    self.expand_list(kind, &mut change.add, errors);
                }
                (LayeredKind::Mapping(_), _) => self.expand(value, errors),
                _ => {}
            }
        }
    }

    fn expand_list(&self, kind: &str, items: &mut Vec<LayeredNode>, errors: &mut Vec<DocumentError>) {
        let expand_item = |item: LayeredNode| match set_name(&item).map(str::to_owned) {
            None => vec![item],
            Some(name) => match self.find(kind, &name) {
                Some(items) => items.to_vec(),
                None => {
                    errors.push(self.unknown_set(kind, &name, &item));
                    Vec::new()
                }
            },
        };
        *items = std::mem::take(items).into_iter().flat_map(expand_item).collect();
    }

    fn find(&self, kind: &str, name: &str) -> Option<&[LayeredNode]> {
        let mut sets = self.0.iter();
        sets.find(|(known, set, _)| *known == kind && set == name).map(|(_, _, items)| items.as_slice())
    }

    fn unknown_set(&self, kind: &str, name: &str, item: &LayeredNode) -> DocumentError {
        let known = self.0.iter().filter(|(known, ..)| *known == kind).map(|(_, set, _)| set.as_str());
        let error = item.error(&format!("there is no set `{name}` in `{kind}` of tools.yaml"));
        error.with_suggestion(match nearest_word(name, known.clone()) {
            Some(near) => format!("did you mean `@{near}`?"),
            None => {
                format!("known sets: {}", known.map(|set| format!("@{set}")).collect::<Vec<_>>().join(", "))
            }
        })
    }
}

/// Returns the name in an item that stands for a set.
fn set_name(item: &LayeredNode) -> Option<&str> {
    item.text()?.strip_prefix('@')
}
