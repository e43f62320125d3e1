//! Check of nested calls: a list of `{tool_slug, arguments}` under one argument. The shape of the list is
//! checked by index, then each inner call like any other, so that a well-formed outer call cannot pass on a
//! malformed inner one.

use serde_json::Value;
use tool::{LONGEST_WORD, Problem, json_kind, shorten};

use crate::check::Filled;
use crate::curated::Entry;
use crate::findings::Findings;
use crate::guard::{Guard, Known};
use crate::problem;

/// Maximum number of calls in one list.
const MOST_CALLS: usize = 64;
/// Maximum nesting depth of call lists.
const DEEPEST: usize = 3;
/// Maximum number of examples of inner calls in one refusal; each tool is shown once.
const MOST_EXAMPLES: usize = 4;

/// Problems of the calls inside a call.
#[derive(Default)]
pub(crate) struct Nested {
    pub(crate) problems: Vec<Problem>,
    /// Number of problems of inner calls that are counted but not listed.
    pub(crate) unlisted: usize,
    pub(crate) examples: Vec<String>,
    shown: Vec<String>,
    /// Number of inner calls that may still be checked, over all lists and levels.
    left: usize,
}

impl Nested {
    /// Checks the lists of calls under these fields.
    pub(crate) fn of(guard: &Guard<'_>, fields: Vec<&str>, arguments: &Value) -> Self {
        let mut nested = Nested { left: 4 * MOST_CALLS, ..Nested::default() };
        for field in fields {
            nested.list(guard, "", field, arguments.get(field), 1);
        }
        nested
    }

    fn list(&mut self, guard: &Guard<'_>, parent: &str, field: &str, value: Option<&Value>, depth: usize) {
        let place = problem::join(parent, field);
        let calls = match value {
            Some(Value::Array(calls)) => calls,
            None | Some(Value::Null) => return self.problems.push(problem::missing(parent, field, "array")),
            Some(Value::String(_)) => {
                let message =
                    format!("{place} must be array, not string: send the list itself, not JSON text");
                return self.problems.push(Problem::new(place, "array", "string", message));
            }
            Some(other) => {
                let got = json_kind(other);
                let message = format!("{place} must be array, not {got}");
                return self.problems.push(Problem::new(place, "array", got, message));
            }
        };
        if depth > DEEPEST || calls.len() > MOST_CALLS || calls.len() > self.left {
            let expected = format!("at most {MOST_CALLS} calls, nested at most {DEEPEST} deep");
            let got = format!("{} calls, {depth} deep", calls.len());
            let message = format!("{place} holds {got}; send {expected}");
            return self.problems.push(Problem::new(place, expected, got, message));
        }
        self.left -= calls.len();
        for (index, call) in calls.iter().enumerate() {
            self.call(guard, &format!("{place}/{index}"), &format!("{field}[{index}]"), call, depth);
        }
    }

    fn call(&mut self, guard: &Guard<'_>, place: &str, label: &str, call: &Value, depth: usize) {
        let Value::Object(call) = call else {
            let got = json_kind(call);
            let message = format!("{label} must be object with tool_slug and arguments, not {got}");
            return self.problems.push(Problem::new(place, "object", got, message));
        };
        let slug = match call.get("tool_slug") {
            Some(Value::String(slug)) if !slug.is_empty() => Some(slug),
            None | Some(Value::Null | Value::String(_)) => {
                self.problems.push(said(label, problem::missing(place, "tool_slug", "string")));
                None
            }
            Some(other) => {
                let got = json_kind(other);
                let message = format!("{label}: tool_slug must be string, not {got}");
                self.problems.push(Problem::new(problem::join(place, "tool_slug"), "string", got, message));
                None
            }
        };
        let Some(arguments) = call.get("arguments") else {
            return self.problems.push(said(label, problem::missing(place, "arguments", "object")));
        };
        if let Some(slug) = slug {
            self.inner(guard, place, label, slug, arguments, depth);
        }
    }

    /// Checks an inner call against the schema of its tool and against the map entry of its name. An unknown
    /// name without an entry is not checked.
    fn inner(
        &mut self,
        guard: &Guard<'_>,
        place: &str,
        label: &str,
        slug: &str,
        arguments: &Value,
        depth: usize,
    ) {
        let known = (guard.tools)(slug);
        let entry = match known {
            Some(known) => guard.curated.of_tool(known.definition.name()),
            None => guard.entry_of_unknown(slug),
        };
        if known.is_none() && entry.is_none() {
            return;
        }
        let place = problem::join(place, "arguments");
        let label = format!("{label} ({})", shorten(slug, LONGEST_WORD).escape_debug());
        let Findings { problems, count, .. } = findings_of(known, entry, arguments);
        self.unlisted += count.saturating_sub(problems.len());
        if !problems.is_empty() {
            self.show(guard, &label, slug, known, entry);
        }
        self.problems.extend(problems.into_iter().map(|inner| problem::inside(&place, &label, inner)));
        for field in crate::guard::calls_of(entry, known) {
            self.list(guard, &place, field, arguments.get(field), depth + 1);
        }
    }

    fn show(
        &mut self,
        guard: &Guard<'_>,
        label: &str,
        slug: &str,
        known: Option<Known<'_>>,
        entry: Option<&Entry>,
    ) {
        let slug = slug.to_ascii_lowercase();
        if self.examples.len() == MOST_EXAMPLES || self.shown.contains(&slug) {
            return;
        }
        let example = match known {
            Some(known) => guard.example(known),
            None => entry.and_then(|entry| entry.example.as_ref()).map(|example| example.value.clone()),
        };
        self.examples.extend(example.map(|example| format!("Example for {label}: {example}")));
        self.shown.push(slug);
    }
}

fn said(label: &str, problem: Problem) -> Problem {
    Problem { message: format!("{label}: {}", problem.message), ..problem }
}

fn findings_of(known: Option<Known<'_>>, entry: Option<&Entry>, arguments: &Value) -> Findings {
    let Some(known) = known else {
        let shape = (!arguments.is_object()).then(|| problem::not_object(arguments));
        let stated = entry.map(|entry| entry.problems(arguments, None)).unwrap_or_default();
        return Findings::stated(shape.into_iter().chain(stated).collect());
    };
    let filled = Filled::new(known.definition, arguments.clone()).arguments;
    let stated = entry.map(|entry| entry.problems(&filled, Some(known.definition))).unwrap_or_default();
    Findings::of(known, &filled, stated)
}
