//! Examples in the entry of a tool: parsed with the policy here, run elsewhere once the tools are known.

use serde_json::Value;
use strict_yaml::Located;
use tool::{Arguments, Mode};

use crate::pattern;
use crate::policy_environment::PathVariables;
use crate::problems::{FileInspection, suggest_mode};
use crate::tools_file::{ExampleEntry, VerdictKind};

/// Example call and its expected verdict.
#[derive(Clone, Debug)]
pub struct PolicyExample {
    /// Arguments of the call.
    pub arguments: Arguments,
    /// Mode in which it is judged.
    pub mode: Mode,
    /// Expected verdict.
    pub expect: VerdictKind,
    /// Location in the policy file.
    pub location: Located<()>,
}

/// Parses a list of examples, and expands a variable such as `$HOME` at the start of a text.
pub(crate) fn parse_examples(
    list: &[Located<ExampleEntry>],
    variables: &PathVariables,
    inspection: &mut FileInspection<'_>,
) -> Vec<PolicyExample> {
    let mut examples = Vec::new();
    for entry in list {
        let location = Located { value: (), line: entry.line, column: entry.column };
        let Ok(mode) = entry.mode.parse::<Mode>() else {
            let message = format!("unknown mode `{}`", entry.mode);
            inspection.error(entry, &message, Some(suggest_mode(&entry.mode)));
            continue;
        };
        match expand_variables(&Value::Object(entry.arguments.clone()), variables) {
            Ok(Value::Object(arguments)) => {
                examples.push(PolicyExample { arguments, mode, expect: entry.expect, location });
            }
            Ok(_) => {}
            Err(bad) => inspection.error(entry, &bad.message, bad.suggestion),
        }
    }
    examples
}

/// Returns a value in which each text that starts with a variable or `~` is expanded.
pub fn expand_variables(value: &Value, variables: &PathVariables) -> Result<Value, pattern::PatternError> {
    Ok(match value {
        Value::String(text) if text.starts_with(['$', '~']) => {
            Value::String(pattern::expand_literal(text, variables)?)
        }
        Value::Array(items) => Value::Array(
            items.iter().map(|item| expand_variables(item, variables)).collect::<Result<_, _>>()?,
        ),
        Value::Object(entries) => {
            let entries =
                entries.iter().map(|(key, value)| Ok((key.clone(), expand_variables(value, variables)?)));
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}
