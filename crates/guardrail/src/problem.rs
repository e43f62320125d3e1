//! What a schema validator found, in words that say what to change. Values are never repeated, only their kind.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use tool::{Problem, ToolDefinition, nearest};

/// One validator error as the problems it stands for.
pub(crate) fn problems(error: &ValidationError<'_>, definition: &ToolDefinition) -> Vec<Problem> {
    let pointer = error.instance_path().to_string();
    match error.kind() {
        ValidationErrorKind::Required { property } => vec![missing(&pointer, property, definition)],
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            unexpected.iter().map(|key| unknown_key(&pointer, key, definition)).collect()
        }
        kind => {
            let (expected, got) = (expected(kind), got(error.instance(), kind));
            let name = if pointer.is_empty() { "the arguments" } else { pointer.as_str() };
            let message = format!("{name} must be {expected}, not {got}");
            vec![Problem { pointer, expected, got, message }]
        }
    }
}

/// A required field that is not there.
fn missing(parent: &str, property: &Value, definition: &ToolDefinition) -> Problem {
    let field = property.as_str().unwrap_or_default();
    let kind = definition.parameters().iter().find(|p| p.name == field && parent.is_empty());
    let expected = kind.map_or("a value", |parameter| parameter.kind.as_str()).to_owned();
    let message = format!("`{field}` is required");
    Problem { pointer: join(parent, field), expected, got: "nothing".into(), message }
}

fn unknown_key(parent: &str, key: &str, definition: &ToolDefinition) -> Problem {
    let known: Vec<&str> = match parent {
        "" => definition.parameters().iter().map(|p| p.name.as_str()).collect(),
        _ => Vec::new(),
    };
    let shown = key.escape_debug();
    let mut message = format!("`{shown}` is not an argument of {}", definition.name());
    if let Some(near) = nearest(key, known.iter().copied()) {
        message.push_str(&format!("; did you mean `{near}`?"));
    } else if !known.is_empty() {
        message.push_str(&format!("; it takes {}", known.join(", ")));
    }
    let expected = "no such argument".to_owned();
    Problem { pointer: join(parent, key), expected, got: "an unknown argument".into(), message }
}

/// RFC 6901 escaping of one more step.
fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn expected(kind: &ValidationErrorKind) -> String {
    match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(single) } => single.to_string(),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(set) } => {
            set.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
        }
        ValidationErrorKind::Enum { options } => format!("one of {options}"),
        ValidationErrorKind::Constant { expected_value } => expected_value.to_string(),
        ValidationErrorKind::Minimum { limit } => format!("at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("at most {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        ValidationErrorKind::MinLength { limit } => format!("at least {limit} characters long"),
        ValidationErrorKind::MaxLength { limit } => format!("at most {limit} characters long"),
        ValidationErrorKind::MinItems { limit } => format!("an array of at least {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("an array of at most {limit} items"),
        ValidationErrorKind::Pattern { pattern } => format!("text that matches {pattern}"),
        ValidationErrorKind::Format { format } => format!("of format {format}"),
        other => format!("valid under `{}`", other.keyword()),
    }
}

/// The kind of value that came, with its size where size was the problem.
fn got(value: &Value, kind: &ValidationErrorKind) -> String {
    let by_length =
        matches!(kind, ValidationErrorKind::MinLength { .. } | ValidationErrorKind::MaxLength { .. });
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(text) if by_length => format!("{} characters", text.chars().count()),
        Value::String(_) => "string".into(),
        Value::Array(items) => format!("array of {}", items.len()),
        Value::Object(_) => "object".into(),
    }
}
