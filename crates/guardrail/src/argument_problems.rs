//! Collected problems of a malformed call, counted completely and listed within bounds, and the refusal that
//! states them.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use tool::refusal::ArgumentProblem;
use tool::{Refusal, RefusalCode, ToolDefinition};

use crate::guardrail::KnownTool;
use crate::{example, problem};

/// Maximum number of listed problems; the rest is counted. A model with a token budget reads the refusal.
pub(crate) const MAX_LISTED_PROBLEMS: usize = 16;
/// Maximum size of the listed problems in bytes, as serialized into the refusal. The first is always listed.
const MAX_LISTED_BYTES: usize = 6 * 1024;
/// Maximum total size of the JSON pointers of all values. The validator builds the full pointer of every
/// error, so for larger arguments, such as a long list under a huge key, the refusal only states that they
/// are invalid.
const MAX_POINTER_BYTES: usize = 16 << 20;

/// Problems of the arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct ArgumentProblems {
    /// Listed problems, missing arguments first.
    pub(crate) problems: Vec<ArgumentProblem>,
    /// Total number of problems.
    pub(crate) count: usize,
    /// Examples of valid calls for the tools called inside this call.
    pub(crate) examples: Vec<String>,
}

impl ArgumentProblems {
    /// Appends the schema errors of these arguments to the problems already `stated`. A problem found by both
    /// is listed once.
    pub(crate) fn from_schema(known: KnownTool<'_>, arguments: &Value, stated: Vec<ArgumentProblem>) -> Self {
        let (definition, validator) = (known.definition, known.schema.validator());
        if !arguments.is_object() {
            let shape = problem::wrong_type_and_missing_fields(definition, arguments);
            return Self::from_stated(shape.into_iter().chain(stated).collect());
        }
        if pointers_exceed(arguments, MAX_POINTER_BYTES) {
            let unlisted = (!validator.is_valid(arguments)).then(|| problem::too_large(definition));
            return Self::from_stated(stated.into_iter().chain(unlisted).collect());
        }
        let errors: Vec<_> = validator.iter_errors(arguments).collect();
        let by_schema =
            errors.iter().flat_map(|error| SchemaViolation::from_error(error, arguments, definition));
        let news: Vec<_> = by_schema
            .filter(|finding| !finding.is_duplicate_of(&stated))
            .map(PendingProblem::FromSchema)
            .collect();
        Self::from_pending(stated.into_iter().map(PendingProblem::Stated).chain(news).collect())
    }

    /// Lists problems that were found without a schema.
    pub(crate) fn from_stated(problems: Vec<ArgumentProblem>) -> Self {
        let mut once: Vec<ArgumentProblem> = Vec::new();
        for problem in problems {
            let repeats = |known: &ArgumentProblem| known.is_missing() && known.pointer == problem.pointer;
            // Unmet groups all have the pointer of the object that lacks them, so they are not duplicates.
            if problem.pointer.is_empty() || !once.iter().any(repeats) {
                once.push(problem);
            }
        }
        Self::from_pending(once.into_iter().map(PendingProblem::Stated).collect())
    }

    fn from_pending(mut found: Vec<PendingProblem<'_>>) -> Self {
        found.sort_by_key(|found| !found.is_missing());
        let count = found.len();
        let problems =
            take_within_budget(found.into_iter().take(MAX_LISTED_PROBLEMS).map(PendingProblem::into_problem));
        ArgumentProblems { count, problems, examples: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Builds the refusal of a call to `tool`. The guardrail has checked that the example, if any, is accepted.
pub(crate) fn invalid_call_refusal(
    tool: &str,
    findings: ArgumentProblems,
    example: Option<Value>,
) -> Refusal {
    let ArgumentProblems { problems, count, examples } = findings;
    let missing = problem::missing_fields(&problems);
    let mut reason = format!("⚠️ Invalid {} call.", tool.escape_debug());
    if !missing.is_empty() {
        reason.push_str(&format!(" Missing required fields: {}.", missing.join(", ")));
    }
    for problem in problems.iter().filter(|problem| !problem.is_missing()) {
        reason.push_str(&format!(" {}.", problem.message.trim_end_matches('?')));
    }
    if count > problems.len() {
        reason.push_str(&format!(" And {} more.", count_phrase(count - problems.len())));
    }
    for inner in examples {
        reason.push_str(&format!(" {inner}."));
    }
    let detail = if missing.is_empty() { "invalid_value" } else { "missing_field" };
    let mut hint = format!("send the call again with the {} corrected", correction_target(count));
    if let Some(example) = &example {
        reason.push_str(&format!(" Example: {}", example::to_text(example)));
    }
    // A text shows a call, but it is not arguments that a caller could send.
    let example = example.filter(Value::is_object);
    if example.is_some() {
        hint.push_str("; `example` is accepted");
    }

    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    let schema_error = messages.join("; ");
    let mut refusal =
        Refusal::new(tool, RefusalCode::InvalidArguments, reason).with_detail(detail).with_hint(hint);
    refusal.example = example;
    refusal.problems = problems;
    refusal.schema_error = Some(schema_error);
    refusal
}

fn correction_target(problems: usize) -> String {
    if problems == 1 { "problem".into() } else { count_phrase(problems) }
}

fn count_phrase(problems: usize) -> String {
    if problems == 1 { "1 problem".into() } else { format!("{problems} problems") }
}

/// Problem from the curated map or from the schema.
enum PendingProblem<'e> {
    Stated(ArgumentProblem),
    FromSchema(SchemaViolation<'e>),
}

impl PendingProblem<'_> {
    fn is_missing(&self) -> bool {
        match self {
            PendingProblem::Stated(problem) => problem.is_missing(),
            PendingProblem::FromSchema(finding) => finding.is_missing(),
        }
    }

    fn into_problem(self) -> ArgumentProblem {
        match self {
            PendingProblem::Stated(problem) => problem,
            PendingProblem::FromSchema(finding) => finding.to_problem(),
        }
    }
}

/// Schema error whose message is built only if it is listed.
struct SchemaViolation<'e> {
    error: &'e ValidationError<'e>,
    /// Unknown key, if that is the problem.
    unknown_key: Option<&'e str>,
    definition: &'e ToolDefinition,
}

impl<'e> SchemaViolation<'e> {
    fn from_error(
        error: &'e ValidationError<'e>,
        arguments: &'e Value,
        definition: &'e ToolDefinition,
    ) -> Vec<Self> {
        let unknown = |key: &'e String| SchemaViolation { error, unknown_key: Some(key), definition };
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                unexpected.iter().map(unknown).collect()
            }
            // If an object may have no keys at all, the validator does not name the keys that it has.
            ValidationErrorKind::FalseSchema if is_closed_object_error(error) => {
                let object = arguments.pointer(error.instance_path().as_str()).and_then(Value::as_object);
                object.into_iter().flat_map(|object| object.keys()).map(unknown).collect()
            }
            _ => vec![SchemaViolation { error, unknown_key: None, definition }],
        }
    }

    fn is_missing(&self) -> bool {
        matches!(self.error.kind(), ValidationErrorKind::Required { .. })
    }

    /// Returns true if `stated` already has this problem: the value is missing, or the same expectation is
    /// unmet.
    fn is_duplicate_of(&self, stated: &[ArgumentProblem]) -> bool {
        if stated.is_empty() {
            return false;
        }
        let pointer = match self.unknown_key {
            Some(key) => problem::pointer_of_key(self.error, key),
            None => problem::pointer_of(self.error),
        };
        let mut same_pointer =
            stated.iter().filter(|problem| problem.pointer == pointer && !pointer.is_empty());
        same_pointer.any(|problem| problem.is_missing() || problem.expected == self.to_problem().expected)
    }

    fn to_problem(&self) -> ArgumentProblem {
        match self.unknown_key {
            Some(key) => problem::unknown_key(self.error, key, self.definition),
            None => problem::from_error(self.error, self.definition),
        }
    }
}

/// Returns true if the error comes from `additionalProperties: false`, and not from a property of that name.
fn is_closed_object_error(error: &ValidationError<'_>) -> bool {
    let object = error.schema_path().as_str().strip_suffix("/additionalProperties");
    object.is_some_and(|object| !object.ends_with("/properties"))
}

/// Returns the size of a problem in a refusal, which repeats its message in `reason` and in `schema_error`.
fn size_in_refusal(problem: &ArgumentProblem) -> usize {
    let whole = serde_json::to_string(problem).map_or(MAX_LISTED_BYTES, |text| text.len());
    whole + 2 * problem.message.escape_debug().count()
}

fn take_within_budget(problems: impl Iterator<Item = ArgumentProblem>) -> Vec<ArgumentProblem> {
    let mut listed = Vec::new();
    let mut bytes = 0;
    for problem in problems {
        bytes += size_in_refusal(&problem);
        if bytes > MAX_LISTED_BYTES && !listed.is_empty() {
            break;
        }
        listed.push(problem);
    }
    listed
}

/// Returns true if the JSON pointers of all values in `value` take more than `max` bytes together.
fn pointers_exceed(value: &Value, max: usize) -> bool {
    /// Returns the rest of the byte budget `remaining` after the pointers below a value whose own pointer has
    /// `length` bytes, or `None` once it is exceeded.
    fn remaining_budget(value: &Value, length: usize, remaining: usize) -> Option<usize> {
        let budget_after = |remaining: usize, (key, child): (usize, &Value)| {
            let length = length + 1 + key;
            remaining_budget(child, length, remaining.checked_sub(length)?)
        };
        match value {
            Value::Array(items) => items.iter().map(|item| (1, item)).try_fold(remaining, budget_after),
            Value::Object(map) => {
                map.iter().map(|(key, child)| (key.len(), child)).try_fold(remaining, budget_after)
            }
            _ => Some(remaining),
        }
    }
    remaining_budget(value, 0, max).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn problems_are_listed_while_they_fit_and_at_least_one() {
        let problem = |bytes: usize| {
            let bare = ArgumentProblem::new("", "", "", "");
            let rest = bytes - size_in_refusal(&bare);
            // The message is sent three times and the pointer once, so the pointer takes the remainder.
            ArgumentProblem { pointer: "p".repeat(rest % 3), message: "m".repeat(rest / 3), ..bare }
        };
        let listed = |bytes: usize| take_within_budget(std::iter::repeat_n(problem(bytes), 4)).len();
        assert_eq!(size_in_refusal(&problem(1000)), 1000);
        assert_eq!(listed(MAX_LISTED_BYTES / 2), 2);
        assert_eq!(listed(MAX_LISTED_BYTES / 2 + 1), 1);
        assert_eq!(listed(2 * MAX_LISTED_BYTES), 1);
    }

    #[test]
    fn pointers_of_all_values_are_summed() {
        // `/a`, `/a/0`, `/a/1`, `/bc`
        let value = json!({"a": [1, 2], "bc": {}});
        assert!(!pointers_exceed(&value, 2 + 4 + 4 + 3));
        assert!(pointers_exceed(&value, 2 + 4 + 4 + 3 - 1));
        assert!(!pointers_exceed(&json!("a long text has no pointer of its own"), 0));
    }
}
