//! The examples that stand beside a tool's rules: read with the policy, run as soon as the tools are known.

use document::Located;
use serde_json::Value;
use tool::{Arguments, Mode};

use crate::pattern;
use crate::problems::{Inspection, suggest_mode};
use crate::surroundings::Variables;
use crate::tools_file::{ExampleEntry, Expectation};

/// A call and what must become of it.
#[derive(Clone, Debug)]
pub(crate) struct Example {
    pub(crate) arguments: Arguments,
    pub(crate) mode: Mode,
    pub(crate) expect: Expectation,
    pub(crate) place: Located<()>,
}

/// Reads a list, with `$HOME` and the other variables filled in wherever a text begins with one.
pub(crate) fn read(
    list: &[Located<ExampleEntry>],
    variables: &Variables,
    inspection: &mut Inspection<'_>,
) -> Vec<Example> {
    let mut examples = Vec::new();
    for entry in list {
        let place = Located { value: (), line: entry.line, column: entry.column };
        let Ok(mode) = entry.mode.parse::<Mode>() else {
            let message = format!("unknown mode `{}`", entry.mode);
            inspection.error(entry, &message, Some(suggest_mode(&entry.mode)));
            continue;
        };
        match expanded(&Value::Object(entry.arguments.clone()), variables) {
            Ok(Value::Object(arguments)) => {
                examples.push(Example { arguments, mode, expect: entry.expect, place });
            }
            Ok(_) => {}
            Err(bad) => inspection.error(entry, &bad.message, bad.suggestion),
        }
    }
    examples
}

/// A value whose texts have their variables filled in.
pub(crate) fn expanded(value: &Value, variables: &Variables) -> Result<Value, pattern::BadPattern> {
    Ok(match value {
        Value::String(text) if text.starts_with(['$', '~']) => {
            Value::String(pattern::expand_plainly(text, variables)?)
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| expanded(item, variables)).collect::<Result<_, _>>()?)
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| Ok((key.clone(), expanded(value, variables)?)));
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}
