//! Repair of wrapped arguments: JSON text in place of the object, or the object under one more key.

use serde_json::Value;
use tool::{Arguments, ToolDefinition, strict_json};

use super::RepairChanges;

/// Keys that wrap arguments in the call formats that models have learnt.
const WRAPPER_KEYS: [&str; 7] =
    ["arguments", "input", "params", "parameters", "args", "kwargs", "tool_input"];
/// Keys next to them that repeat the tool's name.
const NAME_KEYS: [&str; 4] = ["name", "tool", "tool_name", "function"];
/// Maximum number of layers. Text in a wrapper in text is the deepest observed.
const MAX_LAYERS: usize = 4;

/// Unwraps the arguments; `None` if there is no object inside.
pub(super) fn unwrap(
    definition: &ToolDefinition,
    arguments: Value,
    changes: &mut RepairChanges,
) -> Option<Arguments> {
    let mut value = arguments;
    for _ in 0..MAX_LAYERS {
        value = match value {
            Value::Null => return Some(Arguments::new()),
            Value::Object(map) => match wrapper_key(definition, &map) {
                Some(key) => take_wrapped(map, key, changes)?,
                None => return Some(map),
            },
            Value::String(text) => {
                changes.add("send the arguments as an object, not as JSON text".to_owned());
                strict_json::parse(&text).ok()?
            }
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
    }
    None
}

/// Returns the wrapping key, if the only other keys repeat the tool's own name.
fn wrapper_key(definition: &ToolDefinition, map: &Arguments) -> Option<&'static str> {
    let own = |key: &str| definition.parameters().iter().any(|parameter| parameter.name == key);
    let names_it = |key: &str, value: &Value| {
        NAME_KEYS.contains(&key) && value.as_str().is_some_and(|name| definition.matches_name(name))
    };
    let key = WRAPPER_KEYS.into_iter().find(|key| map.contains_key(*key) && !own(key))?;
    let alone = map.iter().all(|(other, value)| other == key || (names_it(other, value) && !own(other)));
    alone.then_some(key)
}

fn take_wrapped(mut map: Arguments, key: &str, changes: &mut RepairChanges) -> Option<Value> {
    changes.add(format!("send the arguments directly, not under `{key}`"));
    map.remove(key)
}
