//! Repair of wrapped arguments: JSON text in place of the object, or the object under one more key.

use serde_json::Value;
use tool::{Arguments, ToolDefinition, strict_json};

use super::Changes;

/// Keys that wrap arguments in the call formats that models have learnt.
const WRAPPERS: [&str; 7] = ["arguments", "input", "params", "parameters", "args", "kwargs", "tool_input"];
/// Keys next to them that repeat the tool's name.
const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
/// Maximum number of layers. Text in a wrapper in text is the deepest observed.
const MOST_LAYERS: usize = 4;

/// Unwraps the arguments; `None` if there is no object inside.
pub(super) fn unwrap(
    definition: &ToolDefinition,
    arguments: Value,
    changes: &mut Changes,
) -> Option<Arguments> {
    let mut value = arguments;
    for _ in 0..MOST_LAYERS {
        value = match value {
            Value::Null => return Some(Arguments::new()),
            Value::Object(map) => match wrapper(definition, &map) {
                Some(key) => take(map, key, changes)?,
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
fn wrapper(definition: &ToolDefinition, map: &Arguments) -> Option<&'static str> {
    let own = |key: &str| definition.parameters().iter().any(|parameter| parameter.name == key);
    let names_it = |key: &str, value: &Value| {
        NAMES.contains(&key) && value.as_str().is_some_and(|name| definition.answers_to(name))
    };
    let key = WRAPPERS.into_iter().find(|key| map.contains_key(*key) && !own(key))?;
    let alone = map.iter().all(|(other, value)| other == key || (names_it(other, value) && !own(other)));
    alone.then_some(key)
}

fn take(mut map: Arguments, key: &str, changes: &mut Changes) -> Option<Value> {
    changes.add(format!("send the arguments directly, not under `{key}`"));
    map.remove(key)
}
