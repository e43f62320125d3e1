//! Problem messages for schema errors, which state what to change. Values are never repeated, only their
//! type. Keys and schema texts are shortened before they are quoted.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use tool::{LONGEST_WORD, Problem, SESSION_ARGUMENT, ToolDefinition, json_kind, shorten};

use crate::synonym;

/// Maximum number of characters of an expectation, which may be a long pattern or list.
const LONGEST_EXPECTED: usize = 256;
/// Number of characters after which a list of choices is cut, between two choices.
const LONGEST_CHOICE: usize = 200;
/// Number of characters from which a pointer is shown by its first and last segment. Any two segments fit.
const LONGEST_PLACE: usize = 160;
/// Maximum number of listed argument names; the rest is counted.
const MOST_NAMES: usize = 16;

/// Converts a validator error into a problem.
pub(crate) fn of(error: &ValidationError<'_>, definition: &ToolDefinition) -> Problem {
    let pointer = shown(error.instance_path().as_str());
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let field = property.as_str().unwrap_or_default();
            missing(&pointer, field, if pointer.is_empty() { kind_of(field, definition) } else { A_VALUE })
        }
        kind => {
            let (expected, got) = (expected(kind), got(error.instance(), kind));
            let name = if pointer.is_empty() {
                "the arguments".to_owned()
            } else {
                pointer.escape_debug().to_string()
            };
            let message = format!("{name} must be {expected}, not {got}");
            Problem::new(pointer, expected, got, message)
        }
    }
}

/// Problem of a key that the schema does not know.
pub(crate) fn unknown_key(error: &ValidationError<'_>, key: &str, definition: &ToolDefinition) -> Problem {
    let parent = error.instance_path().as_str();
    let known: Vec<&str> = match parent {
        "" => definition.parameters().iter().map(|parameter| parameter.name.as_str()).collect(),
        _ => Vec::new(),
    };
    let word = shorten(key, LONGEST_WORD);
    let mut message = format!("`{}` is not an argument of {}", word.escape_debug(), definition.name());
    if let Some(meant) = synonym::meant(key, &known) {
        message.push_str(&format!("; did you mean `{meant}`?"));
    } else if !known.is_empty() {
        message.push_str(&format!("; it takes {}", listed(&known)));
    }
    Problem::new(place_of_key(error, key), "no such argument", "an unknown argument", message)
}

/// Returns the pointer of an unknown key.
pub(crate) fn place_of_key(error: &ValidationError<'_>, key: &str) -> String {
    join(&shown(error.instance_path().as_str()), key)
}

/// Problem of a session argument sent to a tool that always gets the caller's own session.
pub(crate) fn given_session(arguments: &Value, definition: &ToolDefinition) -> Option<Problem> {
    let given = definition.wants_session().then(|| arguments.get(SESSION_ARGUMENT)).flatten()?;
    let message = format!("`{SESSION_ARGUMENT}` is set by Sinew to the caller's own session: leave it out");
    Some(Problem::new(join("", SESSION_ARGUMENT), "no such argument", json_kind(given), message))
}

/// Problem of arguments that are not an object.
pub(crate) fn not_object(given: &Value) -> Problem {
    let kind = json_kind(given);
    Problem::new("", "object", kind, format!("the arguments must be an object, not {kind}"))
}

/// Problems of arguments that are not an object: the wrong type, and every required field as missing.
pub(crate) fn not_an_object(definition: &ToolDefinition, given: &Value) -> Vec<Problem> {
    let shape = not_object(given);
    let required = definition.parameters().iter().filter(|parameter| parameter.must_be_given());
    let missing = required.map(|parameter| missing("", &parameter.name, parameter.kind.as_str()));
    std::iter::once(shape).chain(missing).collect()
}

/// Problem of invalid arguments that are too large to locate the errors.
pub(crate) fn too_large(definition: &ToolDefinition) -> Problem {
    let message = format!(
        "the arguments do not match the schema of {} and are too large to locate the errors: send less data per \
         call, under shorter keys",
        definition.name()
    );
    Problem::new("", "arguments that match the schema", "object", message)
}

/// Problem of an absent required field.
pub(crate) fn missing(parent: &str, field: &str, expected: &str) -> Problem {
    let message = format!("`{}` is required", shorten(field, LONGEST_WORD).escape_debug());
    Problem::missing(join(parent, field), expected, message)
}

/// Problem of a required field that is null or an empty text.
pub(crate) fn empty(field: &str, expected: &str) -> Problem {
    let message = format!("`{field}` is required; null and an empty text count as missing");
    Problem::missing(join("", field), expected, message)
}

/// Problem of a group of fields of which none is present. It points to the object that should contain one of
/// them.
pub(crate) fn none_of<'a>(fields: impl Iterator<Item = &'a str>) -> Problem {
    let fields: Vec<&str> = fields.collect();
    let message = format!("one of `{}` is required", fields.join("`, `"));
    Problem::missing("", format!("{ONE_OF}{}", fields.join("|")), message)
}

/// Problem of a text that is too short.
pub(crate) fn too_short(field: &str, least: u32, length: usize) -> Problem {
    let (expected, got) = (format!("at least {least} characters long"), format!("{length} characters"));
    let pointer = join("", field);
    let message = format!("{pointer} must be {expected}, not {got}");
    Problem::new(pointer, expected, got, message)
}

/// Returns true if a value counts as missing: null and "" do; 0, false, [] and {} do not.
pub(crate) fn is_absent(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// Prefix of the expectation of an unmet group. No other missing field has it.
const ONE_OF: &str = "one of: ";
/// Expectation for a field of unknown type.
pub(crate) const A_VALUE: &str = "a value";

/// Names of the missing required fields, in readable form.
pub fn missing_fields(problems: &[Problem]) -> Vec<String> {
    problems.iter().filter(|problem| problem.is_missing()).map(field).collect()
}

fn field(problem: &Problem) -> String {
    let place = problem.pointer.trim_start_matches('/').escape_debug().to_string();
    match (place.is_empty(), problem.expected.starts_with(ONE_OF)) {
        (_, false) => place,
        (true, true) => problem.expected.clone(),
        (false, true) => format!("{place}/({})", problem.expected),
    }
}

/// Converts a problem of a nested call: prefixes its pointer and its message with those of the nested call.
pub(crate) fn inside(outer: &str, label: &str, inner: Problem) -> Problem {
    let pointer = shown(&format!("{outer}{}", inner.pointer));
    Problem { pointer, message: format!("{label}: {}", inner.message), ..inner }
}

/// Returns the type of a tool's argument.
pub(crate) fn kind_of(field: &str, definition: &ToolDefinition) -> &'static str {
    let parameter = definition.parameters().iter().find(|parameter| parameter.name == field);
    parameter.map_or(A_VALUE, |parameter| parameter.kind.as_str())
}

/// Returns the pointer that the problem of this error has.
pub(crate) fn place(error: &ValidationError<'_>) -> String {
    let parent = shown(error.instance_path().as_str());
    match error.kind() {
        ValidationErrorKind::Required { property } => join(&parent, property.as_str().unwrap_or_default()),
        _ => parent,
    }
}

/// Shortens a JSON pointer: each segment is cut, and a pointer that is still too long keeps its first and
/// last segment.
fn shown(pointer: &str) -> String {
    let steps: Vec<_> = pointer.split('/').skip(1).map(|step| shorten(step, LONGEST_WORD)).collect();
    let length: usize = steps.iter().map(|step| 1 + step.chars().count()).sum();
    match steps.as_slice() {
        [first, .., last] if length > LONGEST_PLACE => format!("/{first}/…/{last}"),
        _ => steps.iter().map(|step| format!("/{step}")).collect(),
    }
}

/// Appends a segment to a pointer, shortened and escaped according to RFC 6901.
pub(crate) fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", shorten(key, LONGEST_WORD).replace('~', "~0").replace('/', "~1"))
}

fn listed(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(MOST_NAMES).map(|name| shorten(name, LONGEST_WORD)).collect();
    let rest = names.len() - shown.len();
    let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    format!("{}{more}", shown.join(", "))
}

fn expected(kind: &ValidationErrorKind) -> String {
    let text = match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(single) } => single.to_string(),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(set) } => {
            set.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
        }
        ValidationErrorKind::Enum { options } => choices(options),
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
    };
    shorten(&text, LONGEST_EXPECTED).into_owned()
}

/// Lists the allowed values; of many, the first ones and the number of the others.
fn choices(options: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = String::new();
    for (index, option) in options.iter().enumerate() {
        let word = option.to_string();
        let word = shorten(&word, LONGEST_WORD);
        if text.chars().count() + word.chars().count() > LONGEST_CHOICE {
            text.push_str(&format!(" and {} more", options.len() - index));
            break;
        }
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(&word);
    }
    format!("one of [{text}]")
}

/// Describes the type of the given value, with its size if the size is the problem.
fn got(value: &Value, kind: &ValidationErrorKind) -> String {
    let by_length =
        matches!(kind, ValidationErrorKind::MinLength { .. } | ValidationErrorKind::MaxLength { .. });
    match value {
        Value::String(text) if by_length => format!("{} characters", text.chars().count()),
        Value::Array(items) => format!("array of {}", items.len()),
        other => json_kind(other).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_is_cut_at_long_segments_and_in_the_middle() {
        let long = "k".repeat(100);
        let cut = format!("{}…", "k".repeat(64));
        let check = |pointer: &str, expect: &str| assert_eq!(shown(pointer), expect, "{pointer}");
        check("", "");
        check("/a", "/a");
        check("/a/b/0/c", "/a/b/0/c");
        check(&format!("/a{}/d", "/0".repeat(100)), "/a/…/d");
        let longest = "/0".repeat(LONGEST_PLACE / 2);
        check(&longest, &longest);
        check(&format!("{longest}1"), "/0/…/01");
        check(&format!("/{long}/b"), &format!("/{cut}/b"));
        check(&format!("/{long}/{long}"), &format!("/{cut}/{cut}"));
        check(&format!("/{long}/b/{long}/{long}"), &format!("/{cut}/…/{cut}"));
        assert_eq!(join("/a", &long), format!("/a/{cut}"));
        assert_eq!(join("", "a/b~"), "/a~1b~0");
    }

    #[test]
    fn choices_are_listed_while_they_fit() {
        let word = |letters: usize| "w".repeat(letters);
        let listed = choices(&serde_json::json!([word(62), word(62), word(62), word(4), word(1)]));
        let (long, short) = (format!("\"{}\"", word(62)), format!("\"{}\"", word(4)));
        assert_eq!(listed, format!("one of [{long},{long},{long},{short} and 1 more]"));
    }

    #[test]
    fn surplus_names_are_counted() {
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(listed(&names[..2]), "n0, n1");
        assert!(listed(&names).ends_with("n15 and 4 more"), "{}", listed(&names));
    }
}
