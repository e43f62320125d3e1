//! Examples in the entry of a tool: parsed with the policy here, run elsewhere once the tools are known.

use serde_json::Value;
use strict_yaml::Located;
use tool::{Arguments, Mode};

use crate::pattern;
use crate::problems::{Inspection, suggest_mode};
use crate::surroundings::Variables;
use crate::tools_file::{ExampleEntry, Expectation};

/// Example call and its expected verdict.
#[derive(Clone, Debug)]
pub struct Example {
    /// Arguments of the call.
    pub arguments: Arguments,
    /// Mode in which it is judged.
    pub mode: Mode,
    /// Expected verdict.
    pub expect: Expectation,
    /// Location in the policy file.
    pub place: Located<()>,
}

/// Parses a list of examples, and expands a variable such as `$HOME` at the start of a text.
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

/// Returns a value in which each text that starts with a variable or `~` is expanded.
pub fn expanded(value: &Value, variables: &Variables) -> Result<Value, pattern::BadPattern> {
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
