//! Repair of argument names that the tool does not know.

use std::collections::HashMap;

use serde_json::Value;
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{Arguments, ToolDefinition};

use super::RepairChanges;
use crate::argument_names;

/// Renames each unknown key that clearly denotes one absent argument. An open schema accepts any key, so
/// there only required arguments are considered.
pub(super) fn rename(definition: &ToolDefinition, arguments: &mut Arguments, changes: &mut RepairChanges) {
    let closed = definition.input_schema()["additionalProperties"] == Value::Bool(false);
    let parameters = definition.parameters().iter();
    let wanted = parameters.filter(|parameter| closed || parameter.is_required());
    let absent: Vec<&str> = wanted
        .map(|parameter| parameter.name.as_str())
        .filter(|name| !arguments.contains_key(*name))
        .collect();
    let is_own = |key: &String| definition.parameters().iter().any(|parameter| parameter.name == *key);
    let mut candidates: HashMap<&str, Vec<String>> = HashMap::new();
    for key in arguments.keys().filter(|key| !is_own(key)) {
        if let Some(name) = argument_names::unambiguous_name(key, &absent) {
            candidates.entry(name).or_default().push(key.clone());
        }
    }
    let renamed: HashMap<&String, &str> = candidates
        .iter()
        .filter_map(|(name, keys)| match keys.as_slice() {
            [only] => Some((only, *name)),
            _ => None,
        })
        .collect();
    if renamed.is_empty() {
        return;
    }
    let entries = std::mem::take(arguments).into_iter().map(|(key, value)| match renamed.get(&key) {
        Some(name) => {
            changes.add(format!("rename `{}` to `{name}`", shorten(&key, MAX_QUOTED_CHARS).escape_debug()));
            ((*name).to_owned(), value)
        }
        None => (key, value),
    });
    *arguments = entries.collect();
}
