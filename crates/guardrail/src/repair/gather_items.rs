//! Repair of the items of a list of objects: keys of one item that were given as arguments of the tool, as in
//! `old_string` and `new_string` for `edits`, and unknown keys inside the items.

use serde_json::{Map, Value};
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{Arguments, ToolDefinition};

use super::RepairChanges;
use crate::argument_names;

/// Moves the unknown arguments into the one required list that is absent, if all of them are keys of its
/// items, and renames unknown keys of the items of every list.
pub(super) fn gather(definition: &ToolDefinition, arguments: &mut Arguments, changes: &mut RepairChanges) {
    let parameters = definition.parameters();
    let unknown: Vec<String> = arguments
        .keys()
        .filter(|key| parameters.iter().all(|parameter| parameter.name != **key))
        .cloned()
        .collect();
    let mut absent = parameters
        .iter()
        .filter(|parameter| parameter.is_required() && !arguments.contains_key(&parameter.name));
    if let (Some(list), None, false) = (absent.next(), absent.next(), unknown.is_empty())
        && let Some(keys) = item_keys(definition, &list.name)
        && unknown.iter().all(|key| argument_names::unambiguous_name(key, &keys).is_some())
    {
        let moved = unknown.iter().filter_map(|key| Some((key.clone(), arguments.shift_remove(key)?)));
        let item: Map<String, Value> = moved.collect();
        arguments.insert(list.name.clone(), Value::Array(vec![Value::Object(item)]));
        let moved: Vec<_> = unknown.iter().map(|key| shorten(key, MAX_QUOTED_CHARS)).collect();
        changes.add(format!("put `{}` into one item of `{}`", moved.join("`, `"), list.name));
    }
    for (name, value) in arguments.iter_mut() {
        if let (Some(keys), Value::Array(items)) = (item_keys(definition, name), value) {
            items
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(|item| rename(item, &keys, name, changes));
        }
    }
}

/// Keys of the items of a list, if the items are objects that accept no others.
fn item_keys<'d>(definition: &'d ToolDefinition, list: &str) -> Option<Vec<&'d str>> {
    let items = definition.input_schema()["properties"].get(list)?.get("items")?;
    let closed = items["additionalProperties"] == Value::Bool(false);
    closed
        .then(|| items["properties"].as_object())
        .flatten()
        .map(|keys| keys.keys().map(String::as_str).collect())
}

fn rename(item: &mut Map<String, Value>, keys: &[&str], list: &str, changes: &mut RepairChanges) {
    let unknown: Vec<String> = item.keys().filter(|key| !keys.contains(&key.as_str())).cloned().collect();
    for key in unknown {
        let absent: Vec<&str> = keys.iter().copied().filter(|name| !item.contains_key(*name)).collect();
        if let Some(name) = argument_names::unambiguous_name(&key, &absent)
            && let Some(value) = item.shift_remove(&key)
        {
            changes.add(format!("rename `{}` to `{name}` in `{list}`", shorten(&key, MAX_QUOTED_CHARS)));
            item.insert(name.to_owned(), value);
        }
    }
}
