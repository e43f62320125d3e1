//! Plan of an orchestration helper: calls in order, whose arguments may refer to the results of earlier
//! calls.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Limit of steps, because a helper may be faulty.
pub(crate) const MAX_STEPS: usize = 16;
/// Key of a reference object, which refers to a part of an earlier result.
pub(crate) const REFERENCE_KEY: &str = "$from";
/// Size limit of the resolved arguments of a step or of the final output: a short reference can stand for a
/// large output and can be repeated many times.
const MAX_RESOLVED_BYTES: usize = 4 << 20;
/// Estimated size of a value besides its text.
const VALUE_OVERHEAD_BYTES: usize = 32;
/// Length limit of a step id.
const MAX_STEP_ID_BYTES: usize = 128;
/// Nesting limit of arguments.
const MAX_DEPTH: usize = 32;

/// Calls to make one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallPlan {
    pub(crate) steps: Vec<PlanStep>,
    /// Final output with references. Default: the output of each step.
    #[serde(default)]
    output: Option<Value>,
}

/// Call in a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanStep {
    /// Name for references in later steps.
    pub(crate) id: String,
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// True if the plan continues when this step fails.
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(skip)]
    wording: ArgumentAuthor,
}

/// Author of the arguments of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArgumentAuthor {
    /// The helper: its references are resolved. The validators refuse references in the caller's arguments.
    #[default]
    Helper,
    /// The caller: the arguments are passed on unchanged.
    Caller,
}

/// Results of the completed steps by id: `{success, output, error}` each.
pub(crate) type StepResults = Map<String, Value>;

impl CallPlan {
    /// Parses the plan that a helper returned.
    pub(crate) fn parse(computed: Value) -> Result<CallPlan, String> {
        let plan: CallPlan = serde_json::from_value(computed).map_err(|error| {
            let error = error.to_string();
            format!(
                "it is not a plan: {}",
                tool::text::escape_invisible_line(&tool::text::shorten(&error, MAX_STEP_ID_BYTES))
            )
        })?;
        plan.validate()
    }

    fn validate(self) -> Result<CallPlan, String> {
        if self.steps.len() > MAX_STEPS {
            return Err(format!("it has {} steps; at most {MAX_STEPS} are permitted", self.steps.len()));
        }
        let mut seen = std::collections::HashSet::new();
        for PlanStep { id, .. } in &self.steps {
            let shown =
                || tool::text::escape_invisible_line(&tool::text::shorten(id, tool::text::MAX_QUOTED_CHARS));
            if id.is_empty() || id.len() > MAX_STEP_ID_BYTES || tool::text::escape_invisible_line(id) != *id {
                return Err(format!(
                    "`{}` is not a valid step id: use up to {MAX_STEP_ID_BYTES} printable characters",
                    shown()
                ));
            }
            if !seen.insert(id.as_str()) {
                return Err(format!("it has two steps named `{}`", shown()));
            }
        }
        Ok(self)
    }

    /// Creates a plan that calls each tool in turn with the same arguments.
    pub(crate) fn call_each(tools: &[String], arguments: &Map<String, Value>) -> Result<CallPlan, String> {
        let step = |tool: &String| PlanStep {
            id: tool.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
            optional: false,
            wording: ArgumentAuthor::Caller,
        };
        // One more than the limit, so that `validate` reports it.
        let steps = tools.iter().take(MAX_STEPS + 1).map(step).collect();
        CallPlan { steps, output: None }.validate()
    }

    /// Builds the final output.
    pub(crate) fn output(&self, step_results: &StepResults) -> Result<Value, String> {
        match &self.output {
            Some(output) => ReferenceResolver::new(step_results).resolve(output, 0),
            None => {
                let output = |(id, one): (&String, &Value)| (id.clone(), one["output"].clone());
                Ok(Value::Object(step_results.iter().map(output).collect()))
            }
        }
    }
}

impl PlanStep {
    /// Returns the arguments with references resolved.
    pub(crate) fn resolved_arguments(
        &self,
        step_results: &StepResults,
    ) -> Result<Map<String, Value>, String> {
        if self.wording == ArgumentAuthor::Caller {
            return Ok(self.arguments.clone());
        }
        ReferenceResolver::new(step_results).resolve_fields(&self.arguments, 0)
    }
}

/// Resolver of references with a size budget.
struct ReferenceResolver<'g> {
    results: &'g StepResults,
    remaining_bytes: usize,
}

impl<'g> ReferenceResolver<'g> {
    fn new(step_results: &'g StepResults) -> Self {
        ReferenceResolver { results: step_results, remaining_bytes: MAX_RESOLVED_BYTES }
    }

    fn resolve(&mut self, value: &Value, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("it is nested too deeply".to_owned());
        }
        match value {
            Value::Object(fields) => match (fields.len(), fields.get(REFERENCE_KEY)) {
                (1, Some(Value::String(path))) => {
                    let found = resolve_path(path, self.results)?;
                    self.charge_value(found)?;
                    Ok(found.clone())
                }
                _ => self.resolve_fields(fields, depth).map(Value::Object),
            },
            Value::Array(items) => {
                self.charge(VALUE_OVERHEAD_BYTES)?;
                let inner = items.iter().map(|item| self.resolve(item, depth + 1));
                inner.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            plain => {
                self.charge_value(plain)?;
                Ok(plain.clone())
            }
        }
    }

    fn resolve_fields(
        &mut self,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        self.charge(VALUE_OVERHEAD_BYTES)?;
        let mut filled = Map::new();
        for (key, value) in fields {
            self.charge(key.len())?;
            filled.insert(key.clone(), self.resolve(value, depth + 1)?);
        }
        Ok(filled)
    }

    /// Charges a value with all its members to the budget, before it is copied.
    fn charge_value(&mut self, value: &Value) -> Result<(), String> {
        self.charge(VALUE_OVERHEAD_BYTES + value.as_str().map_or(0, str::len))?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.charge_value(item)),
            Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
                self.charge(key.len())?;
                self.charge_value(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        let remaining = self.remaining_bytes.checked_sub(bytes);
        self.remaining_bytes = remaining.ok_or_else(|| {
            format!("with its references resolved it is larger than {MAX_RESOLVED_BYTES} bytes")
        })?;
        Ok(())
    }
}

/// Resolves `STEP.output.…`, `STEP.success` or `STEP.error`. The id of a step may contain dots; the longest
/// match wins.
fn resolve_path<'g>(path: &str, step_results: &'g StepResults) -> Result<&'g Value, String> {
    let missing = || {
        let path = tool::text::escape_invisible_line(&tool::text::shorten(path, 128));
        format!("`{path}` refers to no result of an earlier step")
    };
    let of = step_results.iter().filter_map(|(id, one)| {
        let rest = path.strip_prefix(id.as_str())?;
        if rest.is_empty() { Some((id, one, "")) } else { Some((id, one, rest.strip_prefix('.')?)) }
    });
    let (_, mut found, rest) = of.max_by_key(|(id, ..)| id.len()).ok_or_else(missing)?;
    for part in rest.split('.').filter(|part| !part.is_empty()) {
        let next = match found {
            Value::Array(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(part),
        };
        found = next.ok_or_else(missing)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given() -> StepResults {
        let Value::Object(given) = json!({
            "a": {"success": true, "output": {"list": [1, {"n": "x"}]}, "error": null},
            "a.b": {"success": false, "output": {}, "error": "no"},
        }) else {
            panic!("an object")
        };
        given
    }

    #[test]
    fn references_are_resolved_at_any_depth() {
        let check = |value: Value, expect: Option<Value>| {
            assert_eq!(ReferenceResolver::new(&given()).resolve(&value, 0).ok(), expect, "{value}");
        };
        check(json!({"$from": "a.output.list.1.n"}), Some(json!("x")));
        check(json!([{"k": {"$from": "a.success"}}, 2]), Some(json!([{"k": true}, 2])));
        check(json!({"$from": "a.b.error"}), Some(json!("no")));
        check(json!({"$from": "a.output", "more": 1}), Some(json!({"$from": "a.output", "more": 1})));
        for nothing in ["b", "ab", "a.output.list.9", "a.output.list.x", "", "later.output"] {
            check(json!({"$from": nothing}), None);
        }
        let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
        check(deep, None);
    }

    #[test]
    fn a_plan_is_bounded_and_its_step_ids_are_unique() {
        let step = |id: usize| json!({"id": id.to_string(), "tool": "t"});
        let steps = |count: usize| json!({"steps": (0..count).map(step).collect::<Vec<_>>()});
        assert!(CallPlan::parse(steps(MAX_STEPS)).is_ok());
        for bad in [
            steps(MAX_STEPS + 1),
            json!({"steps": [step(1), step(1)]}),
            json!({"steps": [{"tool": "t"}]}),
            json!({"steps": [], "also": 1}),
            json!({"steps": [{"id": "\u{1b}[2J", "tool": "t"}]}),
            json!({"steps": [{"id": "a\u{202e}b", "tool": "t"}]}),
            json!({"steps": [{"id": "", "tool": "t"}]}),
            json!({"steps": [{"id": "i".repeat(MAX_STEP_ID_BYTES + 1), "tool": "t"}]}),
            json!([]),
            json!(null),
        ] {
            assert!(CallPlan::parse(bad.clone()).is_err(), "{bad}");
        }
        let plan =
            CallPlan::parse(json!({"steps": [], "output": {"n": {"$from": "a.output.list.0"}}})).unwrap();
        assert_eq!(plan.output(&given()), Ok(json!({"n": 1})));
        let each = CallPlan::call_each(&["x".to_owned(), "y".to_owned()], &Map::new()).unwrap();
        assert_eq!(each.steps.iter().map(|step| step.tool.as_str()).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(each.output(&given()).unwrap()["a"], json!({"list": [1, {"n": "x"}]}));
    }
    /// Twenty thousand references to one megabyte fit into a few hundred kilobytes of plan.
    #[test]
    fn resolved_references_are_bounded() {
        let mut given = given();
        let large = |bytes: usize| json!({"success": true, "output": "x".repeat(bytes), "error": null});
        given.insert("one".to_owned(), large(900_000));
        let plan = |count: usize| {
            let references = vec![json!({"$from": "one.output"}); count];
            let step = json!({"id": "two", "tool": "t", "arguments": {"tags": references}});
            CallPlan::parse(json!({"steps": [step], "output": references})).unwrap()
        };
        assert!(plan(4).steps[0].resolved_arguments(&given).is_ok() && plan(4).output(&given).is_ok());
        for count in [5, 20_000] {
            let reason = plan(count).steps[0].resolved_arguments(&given).unwrap_err();
            assert!(reason.contains("larger than"), "{reason}");
            assert!(plan(count).output(&given).is_err());
        }
        given.insert("one".to_owned(), json!({"output": vec![0; MAX_RESOLVED_BYTES / VALUE_OVERHEAD_BYTES]}));
        assert!(plan(1).output(&given).is_err(), "small values count too");
        let own = ReferenceResolver::new(&given).resolve(&json!(vec!["x".repeat(1 << 20); 5]), 0);
        assert!(own.is_err(), "values without references count too");
    }

    #[test]
    fn caller_arguments_are_passed_on_unchanged() {
        let Value::Object(arguments) = json!({"tags": [{"$from": "a.output"}]}) else { panic!("an object") };
        let each = CallPlan::call_each(&["x".to_owned()], &arguments).unwrap();
        assert_eq!(each.steps[0].resolved_arguments(&given()), Ok(arguments));
        let many: Vec<String> = (0..=MAX_STEPS).map(|n| format!("t{n}")).collect();
        assert!(CallPlan::call_each(&many, &Map::new()).is_err());
    }
}
