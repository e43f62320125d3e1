//! Problem messages for schema errors, which state what to change. A value is named by its type; only a
//! single short word that is not among the allowed values is quoted. Keys and schema texts are shortened
//! before they are quoted.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;
use tool::ToolDefinition;
use tool::definition::SESSION_ARGUMENT;
use tool::refusal::ArgumentProblem;
use tool::text::{MAX_QUOTED_CHARS, json_kind, shorten};

use crate::argument_names;

/// Maximum number of characters of an expectation, which may be a long pattern or list.
const MAX_EXPECTED_CHARS: usize = 256;
/// Maximum length of a quoted value in bytes.
const MAX_QUOTED_VALUE_BYTES: usize = 32;
/// Number of characters after which a list of choices is cut, between two choices.
const MAX_CHOICES_CHARS: usize = 200;
/// Number of characters from which a pointer is shown by its first and last segment. Any two segments fit.
const MAX_POINTER_CHARS: usize = 160;
/// Maximum number of listed argument names; the rest is counted.
const MAX_LISTED_NAMES: usize = 16;

/// Converts a validator error into a problem.
pub(crate) fn from_error(error: &ValidationError<'_>, definition: &ToolDefinition) -> ArgumentProblem {
    let pointer = shorten_pointer(error.instance_path().as_str());
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let field = property.as_str().unwrap_or_default();
            missing(
                &pointer,
                field,
                if pointer.is_empty() { argument_type(field, definition) } else { ANY_VALUE },
            )
        }
        kind => {
            if let Some(choices) = allowed_values(kind) {
                return not_among(pointer, error.instance(), &choices);
            }
            let (expected, got) = (describe_expected(error), describe_value(error.instance(), kind));
            if is_command_line(error, definition) {
                return command_line(pointer, got);
            }
            let name = if pointer.is_empty() {
                "the arguments".to_owned()
            } else {
                pointer.escape_debug().to_string()
            };
            let message = format!("{name} must be {expected}, not {got}");
            ArgumentProblem::new(pointer, expected, got, message)
        }
    }
}

/// Returns true if the value is one text where the schema expects a command as a list of words.
fn is_command_line(error: &ValidationError<'_>, definition: &ToolDefinition) -> bool {
    let format = format!("/properties{}/format", error.instance_path());
    let format = definition.input_schema().pointer(&format);
    error.instance().is_string() && format.is_some_and(|format| format == "command")
}

/// Describes the problem of a command that is one text.
fn command_line(pointer: String, got: String) -> ArgumentProblem {
    let expected = "an array with the program and each argument as a string of its own";
    let message =
        format!("{pointer} must be {expected}; no shell runs it, so pipes and operators do not work");
    ArgumentProblem::new(pointer, expected, got, message)
}

/// Describes the problem of a key that the schema does not know.
pub(crate) fn unknown_key(
    error: &ValidationError<'_>,
    key: &str,
    definition: &ToolDefinition,
) -> ArgumentProblem {
    let parent = error.instance_path().as_str();
    let known: Vec<&str> = match parent {
        "" => definition.parameters().iter().map(|parameter| parameter.name.as_str()).collect(),
        _ => Vec::new(),
    };
    let word = shorten(key, MAX_QUOTED_CHARS);
    let mut message = format!("`{}` is not an argument of {}", word.escape_debug(), definition.name());
    if let Some(intended) = argument_names::likely_name(key, &known) {
        message.push_str(&format!("; did you mean `{intended}`?"));
    } else if !known.is_empty() {
        message.push_str(&format!("; it takes {}", list_names(&known)));
    }
    ArgumentProblem::new(pointer_of_key(error, key), "no such argument", "an unknown argument", message)
}

/// Returns the pointer of an unknown key.
pub(crate) fn pointer_of_key(error: &ValidationError<'_>, key: &str) -> String {
    join_pointer(&shorten_pointer(error.instance_path().as_str()), key)
}

/// Describes the problem of a session argument sent to a tool that always gets the caller's own session.
pub(crate) fn unexpected_session(arguments: &Value, definition: &ToolDefinition) -> Option<ArgumentProblem> {
    let actual = definition.wants_session().then(|| arguments.get(SESSION_ARGUMENT)).flatten()?;
    let message = format!("`{SESSION_ARGUMENT}` is set by Sinew to the caller's own session: leave it out");
    Some(ArgumentProblem::new(
        join_pointer("", SESSION_ARGUMENT),
        "no such argument",
        json_kind(actual),
        message,
    ))
}

/// Describes the problem of arguments that are not an object.
pub(crate) fn wrong_type(actual: &Value) -> ArgumentProblem {
    let kind = json_kind(actual);
    ArgumentProblem::new("", "object", kind, format!("the arguments must be an object, not {kind}"))
}

/// Problems of arguments that are not an object: the wrong type, and every required field as missing.
pub(crate) fn wrong_type_and_missing_fields(
    definition: &ToolDefinition,
    actual: &Value,
) -> Vec<ArgumentProblem> {
    let shape = wrong_type(actual);
    let required = definition.parameters().iter().filter(|parameter| parameter.is_required());
    let missing = required.map(|parameter| missing("", &parameter.name, parameter.kind.as_str()));
    std::iter::once(shape).chain(missing).collect()
}

/// Describes the problem of invalid arguments that are too large to locate the errors.
pub(crate) fn too_large(definition: &ToolDefinition) -> ArgumentProblem {
    let message = format!(
        "the arguments do not match the schema of {} and are too large to locate the errors: send less data per \
         call, under shorter keys",
        definition.name()
    );
    ArgumentProblem::new("", "arguments that match the schema", "object", message)
}

/// Describes the problem of an absent required field.
pub(crate) fn missing(parent: &str, field: &str, expected: &str) -> ArgumentProblem {
    let message = format!("`{}` is required", shorten(field, MAX_QUOTED_CHARS).escape_debug());
    ArgumentProblem::missing(join_pointer(parent, field), expected, message)
}

/// Describes the problem of a required field that is null or an empty text.
pub(crate) fn empty_field(field: &str, expected: &str) -> ArgumentProblem {
    let message = format!("`{field}` is required; null and an empty text count as missing");
    ArgumentProblem::missing(join_pointer("", field), expected, message)
}

/// Describes the problem of a group of fields of which none is present. It points to the object that should contain one of
/// them.
pub(crate) fn unmet_group<'a>(fields: impl Iterator<Item = &'a str>) -> ArgumentProblem {
    let fields: Vec<&str> = fields.collect();
    let message = format!("one of `{}` is required", fields.join("`, `"));
    ArgumentProblem::missing("", format!("{ONE_OF_PREFIX}{}", fields.join("|")), message)
}

/// Describes the problem of a text that is too short.
pub(crate) fn too_short(field: &str, least: u32, length: usize) -> ArgumentProblem {
    let (expected, got) = (format!("at least {least} characters long"), format!("{length} characters"));
    let pointer = join_pointer("", field);
    let message = format!("{pointer} must be {expected}, not {got}");
    ArgumentProblem::new(pointer, expected, got, message)
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
const ONE_OF_PREFIX: &str = "one of: ";
/// Expectation for a field of unknown type.
pub(crate) const ANY_VALUE: &str = "a value";

/// Returns the names of the missing required fields, in readable form.
pub fn missing_fields(problems: &[ArgumentProblem]) -> Vec<String> {
    problems.iter().filter(|problem| problem.is_missing()).map(field_label).collect()
}

fn field_label(problem: &ArgumentProblem) -> String {
    let pointer = problem.pointer.trim_start_matches('/').escape_debug().to_string();
    match (pointer.is_empty(), problem.expected.starts_with(ONE_OF_PREFIX)) {
        (_, false) => pointer,
        (true, true) => problem.expected.clone(),
        (false, true) => format!("{pointer}/({})", problem.expected),
    }
}

/// Converts a problem of a nested call: prefixes its pointer and its message with those of the nested call.
pub(crate) fn in_nested_call(outer: &str, label: &str, inner: ArgumentProblem) -> ArgumentProblem {
    let pointer = shorten_pointer(&format!("{outer}{}", inner.pointer));
    ArgumentProblem { pointer, message: format!("{label}: {}", inner.message), ..inner }
}

/// Returns the type of a tool's argument.
pub(crate) fn argument_type(field: &str, definition: &ToolDefinition) -> &'static str {
    let parameter = definition.parameters().iter().find(|parameter| parameter.name == field);
    parameter.map_or(ANY_VALUE, |parameter| parameter.kind.as_str())
}

/// Returns the pointer that the problem of this error has.
pub(crate) fn pointer_of(error: &ValidationError<'_>) -> String {
    let parent = shorten_pointer(error.instance_path().as_str());
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            join_pointer(&parent, property.as_str().unwrap_or_default())
        }
        _ => parent,
    }
}

/// Shortens a JSON pointer: each segment is cut, and a pointer that is still too long keeps its first and
/// last segment.
fn shorten_pointer(pointer: &str) -> String {
    let steps: Vec<_> = pointer.split('/').skip(1).map(|step| shorten(step, MAX_QUOTED_CHARS)).collect();
    let length: usize = steps.iter().map(|step| 1 + step.chars().count()).sum();
    match steps.as_slice() {
        [first, .., last] if length > MAX_POINTER_CHARS => format!("/{first}/…/{last}"),
        _ => steps.iter().map(|step| format!("/{step}")).collect(),
    }
}

/// Appends a segment to a pointer, shortened and escaped according to RFC 6901.
pub(crate) fn join_pointer(parent: &str, key: &str) -> String {
    format!("{parent}/{}", shorten(key, MAX_QUOTED_CHARS).replace('~', "~0").replace('/', "~1"))
}

fn list_names(names: &[&str]) -> String {
    let shown: Vec<_> =
        names.iter().take(MAX_LISTED_NAMES).map(|name| shorten(name, MAX_QUOTED_CHARS)).collect();
    let rest = names.len() - shown.len();
    let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    format!("{}{more}", shown.join(", "))
}

/// Describes the problem of a value that is not among the allowed ones.
fn not_among(pointer: String, actual: &Value, choices: &[&Value]) -> ArgumentProblem {
    let choices = list_choices(choices);
    let name = match pointer.trim_start_matches('/') {
        "" => "the arguments".to_owned(),
        name => format!("`{}`", name.escape_debug()),
    };
    let value = quote_word(actual).map_or_else(|| json_kind(actual).to_owned(), |word| format!("`{word}`"));
    let message = format!("{name}: {value} is not one of {choices}");
    ArgumentProblem::new(pointer, format!("one of {choices}"), value, message)
}

/// Returns the value as text if it is a number, a Boolean or one short word. A longer text may be a
/// passphrase or content, and is not repeated.
fn quote_word(value: &Value) -> Option<String> {
    match value {
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::String(text) => {
            let is_word = !text.is_empty()
                && text.len() <= MAX_QUOTED_VALUE_BYTES
                && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
            is_word.then(|| text.clone())
        }
        _ => None,
    }
}

/// Returns the allowed values if the schema lists them: as an enum, as a constant, or as alternatives of
/// these. A null alternative is left out, because it means that the argument is absent.
fn allowed_values(kind: &ValidationErrorKind) -> Option<Vec<&Value>> {
    match kind {
        ValidationErrorKind::Enum { options } => {
            Some(options.as_array()?.iter().filter(|option| !option.is_null()).collect())
        }
        ValidationErrorKind::Constant { expected_value } => Some(vec![expected_value]),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let mut values = Vec::new();
            for branch in context.iter().filter(|branch| !is_null_alternative(branch)) {
                values.extend(branch.iter().find_map(|error| allowed_values(error.kind()))?);
            }
            (!values.is_empty()).then_some(values)
        }
        _ => None,
    }
}

/// Returns true if these are the errors of an alternative that accepts only null.
fn is_null_alternative(errors: &[ValidationError<'_>]) -> bool {
    let is_null = |kind: &TypeKind| matches!(kind, TypeKind::Single(single) if single.to_string() == "null");
    errors.iter().any(|error| matches!(error.kind(), ValidationErrorKind::Type { kind } if is_null(kind)))
}

/// Describes the alternatives of `anyOf` or `oneOf`, each by its first error.
fn describe_alternatives(outer: &ValidationError<'_>, context: &[Vec<ValidationError<'_>>]) -> String {
    let pointer = outer.instance_path().as_str();
    let mut alternatives: Vec<String> = Vec::new();
    for branch in context.iter().filter(|branch| !is_null_alternative(branch)) {
        let Some(error) = branch.first() else { continue };
        let inner = error.instance_path().as_str();
        let text = match error.kind() {
            ValidationErrorKind::Required { property } => {
                let field = property.as_str().unwrap_or_default();
                format!("an object with `{}`", shorten(field, MAX_QUOTED_CHARS))
            }
            _ if inner == pointer => describe_expected(error),
            _ => format!("a value whose {} is {}", shorten_pointer(inner), describe_expected(error)),
        };
        if !alternatives.contains(&text) {
            alternatives.push(text);
        }
    }
    alternatives.join(" or ")
}

fn describe_expected(error: &ValidationError<'_>) -> String {
    let text = match error.kind() {
        ValidationErrorKind::Type { kind: TypeKind::Single(single) } => single.to_string(),
        ValidationErrorKind::Type { kind: TypeKind::Multiple(set) } => {
            set.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
        }
        ValidationErrorKind::Enum { options } => {
            let options: Vec<&Value> = options.as_array().into_iter().flatten().collect();
            format!("one of {}", list_choices(&options))
        }
        ValidationErrorKind::Constant { expected_value } => expected_value.to_string(),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            describe_alternatives(error, context)
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => "of one form only, not of several".to_owned(),
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
    shorten(&text, MAX_EXPECTED_CHARS).into_owned()
}

/// Lists the allowed values; of many, the first ones and the number of the others.
fn list_choices(options: &[&Value]) -> String {
    let mut text = String::new();
    for (index, option) in options.iter().enumerate() {
        let word = match option {
            Value::String(word) if !word.is_empty() => word.clone(),
            other => other.to_string(),
        };
        let word = shorten(&word, MAX_QUOTED_CHARS);
        if text.chars().count() + word.chars().count() > MAX_CHOICES_CHARS {
            text.push_str(&format!(" and {} more", options.len() - index));
            break;
        }
        text.push_str(if index == 0 { "" } else { ", " });
        text.push_str(&word);
    }
    text.escape_debug().to_string()
}

/// Describes the type of the given value, with its size if the size is the problem.
fn describe_value(value: &Value, kind: &ValidationErrorKind) -> String {
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
        let check = |pointer: &str, expect: &str| assert_eq!(shorten_pointer(pointer), expect, "{pointer}");
        check("", "");
        check("/a", "/a");
        check("/a/b/0/c", "/a/b/0/c");
        check(&format!("/a{}/d", "/0".repeat(100)), "/a/…/d");
        let longest = "/0".repeat(MAX_POINTER_CHARS / 2);
        check(&longest, &longest);
        check(&format!("{longest}1"), "/0/…/01");
        check(&format!("/{long}/b"), &format!("/{cut}/b"));
        check(&format!("/{long}/{long}"), &format!("/{cut}/{cut}"));
        check(&format!("/{long}/b/{long}/{long}"), &format!("/{cut}/…/{cut}"));
        assert_eq!(join_pointer("/a", &long), format!("/a/{cut}"));
        assert_eq!(join_pointer("", "a/b~"), "/a~1b~0");
    }

    #[test]
    fn choices_are_listed_while_they_fit() {
        let word = |letters: usize| "w".repeat(letters);
        let words = [word(62), word(62), word(62), word(4), word(5)].map(Value::from);
        let (long, short) = (word(62), word(4));
        let listed = list_choices(&words.iter().collect::<Vec<_>>());
        assert_eq!(listed, format!("{long}, {long}, {long}, {short} and 1 more"));
    }

    #[test]
    fn surplus_names_are_counted() {
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(list_names(&names[..2]), "n0, n1");
        assert!(list_names(&names).ends_with("n15 and 4 more"), "{}", list_names(&names));
    }
}
