//! Arguments of a call that a standing rule is bound to, besides those that name what the call reaches.

use std::collections::BTreeMap;

use governance::Permit;
use registry::CallPreview;
use serde_json::Value;
use tool::Arguments;

/// Arguments that a standing rule is bound to besides those that name what the call reaches. None for a
/// built-in tool that changes a file, since the operator decides about the file, and none for a built-in
/// read-only tool. All for every other tool: the input of a program, or a parameter for a server, determines
/// what it does.
pub(super) fn other_arguments(permit: &Permit, preview: &CallPreview) -> Option<Value> {
    let definition = permit.call().definition();
    let is_ours = definition.origin().is_none();
    if is_ours && (!preview.changes.is_empty() || definition.annotations().read_only_hint) {
        return None;
    }
    let reaching = definition.path_arguments().iter().map(|path| path.key.as_str());
    let external_keys = definition.external_target_arguments().iter().map(|argument| argument.key.as_str());
    let reaching: Vec<&str> = reaching.chain(external_keys).collect();
    let others = permit.call().arguments().iter().filter(|(key, _)| !reaching.contains(&key.as_str()));
    Some(Value::Object(others.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

/// Boolean arguments by name. Nested ones are named by their path, such as `options.force`.
pub(super) fn boolean_arguments(arguments: &Arguments) -> BTreeMap<String, bool> {
    fn put(found: &mut BTreeMap<String, bool>, name: String, value: &Value) {
        match value {
            Value::Bool(on) => found.extend([(name, *on)]),
            Value::Object(inner) => {
                inner.iter().for_each(|(key, value)| put(found, format!("{name}.{key}"), value));
            }
            Value::Array(inner) => {
                inner.iter().enumerate().for_each(|(n, value)| put(found, format!("{name}.{n}"), value));
            }
            Value::Null | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeMap::new();
    arguments.iter().for_each(|(key, value)| put(&mut found, key.clone(), value));
    found
}
