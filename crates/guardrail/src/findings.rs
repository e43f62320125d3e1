//! Everything the validator found wrong: counted in full, listed within bounds.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use tool::{Problem, ToolDefinition};

use crate::guard::Known;
use crate::problem;

/// More problems than this are counted, not listed: a refusal is read by a model with a budget.
pub(crate) const MOST_PROBLEMS: usize = 16;
/// Nor are they listed beyond this many bytes, as a refusal sends them. The first always is.
const MOST_BYTES: usize = 6 * 1024;
/// The validator names the place of each error in full and lists no fewer than all: arguments whose places are
/// together longer than this, such as a long list under a huge key, are only said to be wrong.
const MOST_PLACES: usize = 16 << 20;

/// What is wrong with the arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The first of them, what is missing before the rest.
    pub(crate) problems: Vec<Problem>,
    /// How many there are.
    pub(crate) count: usize,
    /// Calls that would work, of the tools that the call itself calls.
    pub(crate) examples: Vec<String>,
}

impl Findings {
    /// What a tool's schema has against these arguments, after what was `stated` without it. What both say is said
    /// once.
    pub(crate) fn of(known: Known<'_>, arguments: &Value, stated: Vec<Problem>) -> Self {
        let (definition, validator) = (known.definition, known.schema.validator());
        if places_exceed(arguments, MOST_PLACES) {
            let unlisted = (!validator.is_valid(arguments)).then(|| problem::too_large(definition));
            return Self::stated(stated.into_iter().chain(unlisted).collect());
        }
        let errors: Vec<_> = validator.iter_errors(arguments).collect();
        let by_schema = errors.iter().flat_map(|error| Finding::all(error, arguments, definition));
        let news: Vec<_> =
            by_schema.filter(|finding| !finding.repeats(&stated)).map(Found::BySchema).collect();
        Self::listed(stated.into_iter().map(Found::Stated).chain(news).collect())
    }

    /// Problems that were found without a schema.
    pub(crate) fn stated(problems: Vec<Problem>) -> Self {
        let mut once: Vec<Problem> = Vec::new();
        for problem in problems {
            let repeats = |known: &Problem| known.is_missing() && known.pointer == problem.pointer;
            // Unmet groups share the place of the object that lacks them.
            if problem.pointer.is_empty() || !once.iter().any(repeats) {
                once.push(problem);
            }
        }
        Self::listed(once.into_iter().map(Found::Stated).collect())
    }

    fn listed(mut found: Vec<Found<'_>>) -> Self {
        found.sort_by_key(|found| !found.is_missing());
        let count = found.len();
        let problems = within_bytes(found.into_iter().take(MOST_PROBLEMS).map(Found::into_problem));
        Findings { count, problems, examples: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// One problem, whoever found it.
enum Found<'e> {
    Stated(Problem),
    BySchema(Finding<'e>),
}

impl Found<'_> {
    fn is_missing(&self) -> bool {
        match self {
            Found::Stated(problem) => problem.is_missing(),
            Found::BySchema(finding) => finding.is_missing(),
        }
    }

    fn into_problem(self) -> Problem {
        match self {
            Found::Stated(problem) => problem,
            Found::BySchema(finding) => finding.problem(),
        }
    }
}

/// One problem, not yet put into words: only those that are listed are worth the work.
struct Finding<'e> {
    error: &'e ValidationError<'e>,
    /// The key that should not be there, where that is the problem.
    unknown: Option<&'e str>,
    definition: &'e ToolDefinition,
}

impl<'e> Finding<'e> {
    fn all(
        error: &'e ValidationError<'e>,
        arguments: &'e Value,
        definition: &'e ToolDefinition,
    ) -> Vec<Self> {
        let unknown = |key: &'e String| Finding { error, unknown: Some(key), definition };
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                unexpected.iter().map(unknown).collect()
            }
            // Where an object may have no keys at all, the validator names none of those it has.
            ValidationErrorKind::FalseSchema if is_of_closed(error) => {
                let object = arguments.pointer(error.instance_path().as_str()).and_then(Value::as_object);
                object.into_iter().flat_map(|object| object.keys()).map(unknown).collect()
            }
            _ => vec![Finding { error, unknown: None, definition }],
        }
    }

    fn is_missing(&self) -> bool {
        matches!(self.error.kind(), ValidationErrorKind::Required { .. })
    }

    /// Whether somebody said so already: that nothing is there, or the very same.
    fn repeats(&self, stated: &[Problem]) -> bool {
        if stated.is_empty() {
            return false;
        }
        let place = match self.unknown {
            Some(key) => problem::place_of_key(self.error, key),
            None => problem::place(self.error),
        };
        let mut there = stated.iter().filter(|problem| problem.pointer == place && !place.is_empty());
        there.any(|problem| problem.is_missing() || problem.expected == self.problem().expected)
    }

    fn problem(&self) -> Problem {
        match self.unknown {
            Some(key) => problem::unknown_key(self.error, key, self.definition),
            None => problem::of(self.error, self.definition),
        }
    }
}

/// Whether an error is that of `additionalProperties: false`, and not of a property that is called so.
fn is_of_closed(error: &ValidationError<'_>) -> bool {
    let object = error.schema_path().as_str().strip_suffix("/additionalProperties");
    object.is_some_and(|object| !object.ends_with("/properties"))
}

/// A refusal tells the message of a problem twice more, in its reason and in `schema_error`.
fn bytes_sent(problem: &Problem) -> usize {
    let whole = serde_json::to_string(problem).map_or(MOST_BYTES, |text| text.len());
    whole + 2 * problem.message.escape_debug().count()
}

fn within_bytes(problems: impl Iterator<Item = Problem>) -> Vec<Problem> {
    let mut listed = Vec::new();
    let mut bytes = 0;
    for problem in problems {
        bytes += bytes_sent(&problem);
        if bytes > MOST_BYTES && !listed.is_empty() {
            break;
        }
        listed.push(problem);
    }
    listed
}

/// Whether the places of all values in `value`, written out, take more than `most` bytes.
fn places_exceed(value: &Value, most: usize) -> bool {
    /// What is left of `left` when the values below one at a place of `length` bytes are written out.
    fn spend(value: &Value, length: usize, left: usize) -> Option<usize> {
        let below = |left: usize, (key, child): (usize, &Value)| {
            let length = length + 1 + key;
            spend(child, length, left.checked_sub(length)?)
        };
        match value {
            Value::Array(items) => items.iter().map(|item| (1, item)).try_fold(left, below),
            Value::Object(map) => map.iter().map(|(key, child)| (key.len(), child)).try_fold(left, below),
            _ => Some(left),
        }
    }
    spend(value, 0, most).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn as_many_are_listed_as_fit_and_always_the_first() {
        let problem = |bytes: usize| {
            let bare = Problem::new("", "", "", "");
            let rest = bytes - bytes_sent(&bare);
            // What is left after a message that is sent three times goes to where it is sent once.
            Problem { pointer: "p".repeat(rest % 3), message: "m".repeat(rest / 3), ..bare }
        };
        let listed = |bytes: usize| within_bytes(std::iter::repeat_n(problem(bytes), 4)).len();
        assert_eq!(bytes_sent(&problem(1000)), 1000);
        assert_eq!(listed(MOST_BYTES / 2), 2);
        assert_eq!(listed(MOST_BYTES / 2 + 1), 1);
        assert_eq!(listed(2 * MOST_BYTES), 1);
    }

    #[test]
    fn the_places_of_all_values_are_added_up() {
        // `/a`, `/a/0`, `/a/1`, `/bc`
        let value = json!({"a": [1, 2], "bc": {}});
        assert!(!places_exceed(&value, 2 + 4 + 4 + 3));
        assert!(places_exceed(&value, 2 + 4 + 4 + 3 - 1));
        assert!(!places_exceed(&json!("a long text has no place of its own"), 0));
    }
}
