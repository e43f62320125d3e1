//! Check of nested calls: a list of `{tool_slug, arguments}` under one argument. The shape of the list is
//! checked by index, then each inner call like any other, so that a well-formed outer call cannot pass on a
//! malformed inner one.

use serde_json::Value;
use tool::refusal::ArgumentProblem;
use tool::text::{MAX_QUOTED_CHARS, json_kind, shorten};

use crate::argument_problems::ArgumentProblems;
use crate::check::FilledArguments;
use crate::curated::CuratedRequirements;
use crate::guardrail::{Guardrail, KnownTool};
use crate::{example, problem};

/// Maximum number of calls in one list.
const MAX_CALLS: usize = 64;
/// Maximum nesting depth of call lists.
const MAX_DEPTH: usize = 3;
/// Maximum number of examples of inner calls in one refusal; each tool is shown once.
const MAX_EXAMPLES: usize = 4;

/// Problems of the calls inside a call.
#[derive(Default)]
pub(crate) struct NestedProblems {
    pub(crate) problems: Vec<ArgumentProblem>,
    /// Number of problems of inner calls that are counted but not listed.
    pub(crate) unlisted_count: usize,
    pub(crate) examples: Vec<String>,
    tools_with_example: Vec<String>,
    /// Number of inner calls that may still be checked, over all lists and levels.
    calls_left: usize,
}

impl NestedProblems {
    /// Checks the lists of calls under these fields.
    pub(crate) fn check(guard: &Guardrail<'_>, fields: Vec<&str>, arguments: &Value) -> Self {
        let mut nested = NestedProblems { calls_left: 4 * MAX_CALLS, ..NestedProblems::default() };
        for field in fields {
            nested.check_list(guard, "", field, arguments.get(field), 1);
        }
        nested
    }

    fn check_list(
        &mut self,
        guard: &Guardrail<'_>,
        parent: &str,
        field: &str,
        value: Option<&Value>,
        depth: usize,
    ) {
        let pointer = problem::join_pointer(parent, field);
        let calls = match value {
            Some(Value::Array(calls)) => calls,
            None | Some(Value::Null) => return self.problems.push(problem::missing(parent, field, "array")),
            Some(Value::String(_)) => {
                let message =
                    format!("{pointer} must be array, not string: send the list itself, not JSON text");
                return self.problems.push(ArgumentProblem::new(pointer, "array", "string", message));
            }
            Some(other) => {
                let got = json_kind(other);
                let message = format!("{pointer} must be array, not {got}");
                return self.problems.push(ArgumentProblem::new(pointer, "array", got, message));
            }
        };
        if depth > MAX_DEPTH || calls.len() > MAX_CALLS || calls.len() > self.calls_left {
            let expected = format!("at most {MAX_CALLS} calls, nested at most {MAX_DEPTH} deep");
            let got = format!("{} calls, {depth} deep", calls.len());
            let message = format!("{pointer} holds {got}; send {expected}");
            return self.problems.push(ArgumentProblem::new(pointer, expected, got, message));
        }
        self.calls_left -= calls.len();
        for (index, call) in calls.iter().enumerate() {
            self.check_call(guard, &format!("{pointer}/{index}"), &format!("{field}[{index}]"), call, depth);
        }
    }

    fn check_call(&mut self, guard: &Guardrail<'_>, pointer: &str, label: &str, call: &Value, depth: usize) {
        let Value::Object(call) = call else {
            let got = json_kind(call);
            let message = format!("{label} must be object with tool_slug and arguments, not {got}");
            return self.problems.push(ArgumentProblem::new(pointer, "object", got, message));
        };
        let slug = match call.get("tool_slug") {
            Some(Value::String(slug)) if !slug.is_empty() => Some(slug),
            None | Some(Value::Null | Value::String(_)) => {
                self.problems.push(with_label(label, problem::missing(pointer, "tool_slug", "string")));
                None
            }
            Some(other) => {
                let got = json_kind(other);
                let message = format!("{label}: tool_slug must be string, not {got}");
                self.problems.push(ArgumentProblem::new(
                    problem::join_pointer(pointer, "tool_slug"),
                    "string",
                    got,
                    message,
                ));
                None
            }
        };
        let Some(arguments) = call.get("arguments") else {
            return self.problems.push(with_label(label, problem::missing(pointer, "arguments", "object")));
        };
        if let Some(slug) = slug {
            self.check_inner_call(guard, pointer, label, slug, arguments, depth);
        }
    }

    /// Checks an inner call against the schema of its tool and against the map entry of its name. An unknown
    /// name without an entry is not checked.
    fn check_inner_call(
        &mut self,
        guard: &Guardrail<'_>,
        pointer: &str,
        label: &str,
        slug: &str,
        arguments: &Value,
        depth: usize,
    ) {
        let known = (guard.find_tool)(slug);
        let entry = match known {
            Some(known) => guard.curated.for_tool(known.definition.name()),
            None => guard.requirements_for_unknown(slug),
        };
        if known.is_none() && entry.is_none() {
            return;
        }
        let pointer = problem::join_pointer(pointer, "arguments");
        let label = format!("{label} ({})", shorten(slug, MAX_QUOTED_CHARS).escape_debug());
        let ArgumentProblems { problems, count, .. } = check_arguments(known, entry, arguments);
        self.unlisted_count += count.saturating_sub(problems.len());
        if !problems.is_empty() {
            self.add_example(guard, &label, slug, known, entry);
        }
        self.problems
            .extend(problems.into_iter().map(|inner| problem::in_nested_call(&pointer, &label, inner)));
        for field in crate::guardrail::call_fields(entry, known) {
            self.check_list(guard, &pointer, field, arguments.get(field), depth + 1);
        }
    }

    fn add_example(
        &mut self,
        guard: &Guardrail<'_>,
        label: &str,
        slug: &str,
        known: Option<KnownTool<'_>>,
        entry: Option<&CuratedRequirements>,
    ) {
        let slug = slug.to_ascii_lowercase();
        if self.examples.len() == MAX_EXAMPLES || self.tools_with_example.contains(&slug) {
            return;
        }
        let example = match known {
            Some(known) => guard.example_for(known),
            None => entry.and_then(|entry| entry.example.as_ref()).map(|example| example.value.clone()),
        };
        self.examples
            .extend(example.map(|example| format!("Example for {label}: {}", example::to_text(&example))));
        self.tools_with_example.push(slug);
    }
}

fn with_label(label: &str, problem: ArgumentProblem) -> ArgumentProblem {
    ArgumentProblem { message: format!("{label}: {}", problem.message), ..problem }
}

fn check_arguments(
    known: Option<KnownTool<'_>>,
    entry: Option<&CuratedRequirements>,
    arguments: &Value,
) -> ArgumentProblems {
    let Some(known) = known else {
        let shape = (!arguments.is_object()).then(|| problem::wrong_type(arguments));
        let stated = entry.map(|entry| entry.problems(arguments, None)).unwrap_or_default();
        return ArgumentProblems::from_stated(shape.into_iter().chain(stated).collect());
    };
    let stated = entry.map(|entry| entry.problems(arguments, Some(known.definition))).unwrap_or_default();
    let filled = FilledArguments::new(known.definition, arguments.clone()).arguments;
    ArgumentProblems::from_schema(known, &filled, stated)
}
