//! Merge of two configuration layers. Pure functions.

use super::{LayeredKind, LayeredMapping, LayeredNode, ListChange};

/// Merges the upper layer into the base layer. `unmatched` receives the items that a `{remove}` names and that
/// the list does not contain.
pub fn merge(base: LayeredNode, upper: LayeredNode, unmatched: &mut Vec<LayeredNode>) -> LayeredNode {
    let origin = upper.origin;
    let kind = match (base.kind, upper.kind) {
        (LayeredKind::Mapping(base_mapping), LayeredKind::Mapping(upper_mapping))
            if !upper_mapping.replaces =>
        {
            // The result has the position of the base mapping, because the keys of that mapping come first.
            let kind = LayeredKind::Mapping(merge_mappings(base_mapping, upper_mapping, unmatched));
            return LayeredNode { origin: base.origin, kind };
        }
        // The mapping replaces a value of another kind. `replaces` prevents that a later merge combines it with a
        // mapping of a lower layer.
        (_, LayeredKind::Mapping(upper_mapping)) => {
            LayeredKind::Mapping(LayeredMapping { replaces: true, ..upper_mapping })
        }
        (LayeredKind::List(items), LayeredKind::Change(change)) => {
            LayeredKind::List(apply(items, change, unmatched))
        }
        (LayeredKind::Change(first), LayeredKind::Change(second)) => {
            LayeredKind::Change(compose(first, second))
        }
        (_, LayeredKind::Change(change)) => LayeredKind::List(apply(Vec::new(), change, unmatched)),
        (_, replacement) => replacement,
    };
    LayeredNode { origin, kind }
}

fn merge_mappings(
    mut base_mapping: LayeredMapping,
    upper_mapping: LayeredMapping,
    unmatched: &mut Vec<LayeredNode>,
) -> LayeredMapping {
    for (key, value) in upper_mapping.entries {
        match base_mapping.entries.iter().position(|(base_key, _)| base_key.name == key.name) {
            Some(index) => {
                let (base_key, base_value) = base_mapping.entries.remove(index);
                base_mapping.entries.insert(index, (base_key, merge(base_value, value, unmatched)));
            }
            None => base_mapping.entries.push((key, value)),
        }
    }
    base_mapping
}

/// Applies the `{remove}` and `{add}` of a change to a list.
pub(super) fn apply(
    items: Vec<LayeredNode>,
    change: ListChange,
    unmatched: &mut Vec<LayeredNode>,
) -> Vec<LayeredNode> {
    let is_known = |list: &[LayeredNode], item: &LayeredNode| {
        let value = item.to_json();
        list.iter().any(|known| known.to_json() == value)
    };
    let (_, missing): (Vec<_>, Vec<_>) =
        change.remove.iter().cloned().partition(|item| is_known(&items, item));
    unmatched.extend(missing);
    let mut merged: Vec<LayeredNode> =
        items.into_iter().filter(|item| !is_known(&change.remove, item)).collect();
    for item in change.add {
        if !is_known(&merged, &item) {
            merged.push(item);
        }
    }
    merged
}

/// Returns one change that has the effect of applying `first` and then `second`.
fn compose(first: ListChange, second: ListChange) -> ListChange {
    // The second change can remove items that the first one adds. It adds its own items at the end.
    let ListChange { remove, add } = second;
    let second_change = ListChange { remove: remove.clone(), add };
    let add = apply(first.add, second_change, &mut Vec::new());
    ListChange { remove: [first.remove, remove].concat(), add }
}
