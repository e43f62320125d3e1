//! Merge of two layers, as a pure function.

use super::{LayeredKind, LayeredMapping, LayeredNode, ListChange};

/// Merges `over` into `base`. Items that a change removes from a list that does not have them are collected in
/// `unmatched`.
pub fn merge(base: LayeredNode, over: LayeredNode, unmatched: &mut Vec<LayeredNode>) -> LayeredNode {
    let origin = over.origin;
    let kind = match (base.kind, over.kind) {
        (LayeredKind::Mapping(below), LayeredKind::Mapping(above)) if !above.replaces => {
            // The position of the lower mapping: its keys come first.
            let kind = LayeredKind::Mapping(merge_mappings(below, above, unmatched));
            return LayeredNode { origin: base.origin, kind };
        }
        // Something other than a mapping was below it, so nothing further down may show through.
        (_, LayeredKind::Mapping(above)) => LayeredKind::Mapping(LayeredMapping { replaces: true, ..above }),
        (LayeredKind::List(items), LayeredKind::Change(change)) => {
            LayeredKind::List(apply(items, change, unmatched))
        }
        (LayeredKind::Change(first), LayeredKind::Change(second)) => {
            LayeredKind::Change(compose(first, second))
        }
        (_, LayeredKind::Change(change)) => LayeredKind::List(apply(Vec::new(), change, unmatched)),
        (_, plain) => plain,
    };
    LayeredNode { origin, kind }
}

fn merge_mappings(
    mut below: LayeredMapping,
    above: LayeredMapping,
    unmatched: &mut Vec<LayeredNode>,
) -> LayeredMapping {
    for (key, value) in above.entries {
        match below.entries.iter().position(|(known, _)| known.name == key.name) {
            Some(at) => {
                let (known, base) = below.entries.remove(at);
                below.entries.insert(at, (known, merge(base, value, unmatched)));
            }
            None => below.entries.push((key, value)),
        }
    }
    below
}

/// Applies a change to a list.
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

/// Returns one change with the effect of `first` and then `second`.
fn compose(first: ListChange, second: ListChange) -> ListChange {
    // The second change also removes what the first one adds, and adds at the end.
    let ListChange { remove, add } = second;
    let second_change = ListChange { remove: remove.clone(), add };
    let add = apply(first.add, second_change, &mut Vec::new());
    ListChange { remove: [first.remove, remove].concat(), add }
}
