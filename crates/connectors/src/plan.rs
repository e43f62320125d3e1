//! Plan of an orchestration helper: calls in order, whose arguments may refer to the results of earlier
//! calls.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Limit of steps, because a helper may be faulty.
pub(crate) const MOST_STEPS: usize = 16;
/// Key of a reference object, which stands for a part of an earlier result.
pub(crate) const FROM: &str = "$from";
/// Size limit of the resolved arguments of a step or of the final output: a short reference can stand for a
/// large output and can be repeated many times.
const LARGEST: usize = 4 << 20;
/// Estimated size of a value besides its text.
const SLOT: usize = 32;
/// Length limit of a step id.
const LONGEST_ID: usize = 128;
/// Nesting limit of arguments.
const DEEPEST: usize = 32;

/// Calls to make one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Final output with references. Default: the output of each step.
    #[serde(default)]
    output: Option<Value>,
}

/// Call in a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Name for references in later steps.
    pub(crate) id: String,
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// True if the plan continues when this step fails.
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(skip)]
    wording: Wording,
}

/// Author of the arguments of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wording {
    /// The helper: its references are resolved. The validators refuse references in the caller's arguments.
    #[default]
    Helpers,
    /// The caller: the arguments are passed on unchanged.
    Callers,
}

/// Results of the completed steps by id: `{success, output, error}` each.
pub(crate) type Given = Map<String, Value>;

impl Plan {
    /// Parses the plan that a helper returned.
    pub(crate) fn read(answer: Value) -> Result<Plan, String> {
        let plan: Plan = serde_json::from_value(answer).map_err(|error| {
            let error = error.to_string();
            format!("it is not a plan: {}", tool::visible_line(&tool::shorten(&error, LONGEST_ID)))
        })?;
        plan.checked()
    }

    fn checked(self) -> Result<Plan, String> {
        if self.steps.len() > MOST_STEPS {
            return Err(format!("it has {} steps; at most {MOST_STEPS} are permitted", self.steps.len()));
        }
        let mut seen = std::collections::HashSet::new();
        for Step { id, .. } in &self.steps {
            let shown = || tool::visible_line(&tool::shorten(id, tool::LONGEST_WORD));
            if id.is_empty() || id.len() > LONGEST_ID || tool::visible_line(id) != *id {
                return Err(format!(
                    "`{}` is not a valid step id: use up to {LONGEST_ID} printable characters",
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
    pub(crate) fn of_each(tools: &[String], arguments: &Map<String, Value>) -> Result<Plan, String> {
        let step = |tool: &String| Step {
            id: tool.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
            optional: false,
            wording: Wording::Callers,
        };
        // One more than the limit, so that `validate` reports it.
        let steps = tools.iter().take(MOST_STEPS + 1).map(step).collect();
        Plan { steps, output: None }.checked()
    }

    /// Builds the final output.
    pub(crate) fn answer(&self, given: &Given) -> Result<Value, String> {
        match &self.output {
            Some(output) => Filling::of(given).resolved(output, 0),
            None => {
                let output = |(id, one): (&String, &Value)| (id.clone(), one["output"].clone());
                Ok(Value::Object(given.iter().map(output).collect()))
            }
        }
    }
}

impl Step {
    /// Returns the arguments with references resolved.
    pub(crate) fn arguments(&self, given: &Given) -> Result<Map<String, Value>, String> {
        if self.wording == Wording::Callers {
            return Ok(self.arguments.clone());
        }
        Filling::of(given).fields(&self.arguments, 0)
    }
}

/// Resolver of references with a size budget.
struct Filling<'g> {
    given: &'g Given,
    room: usize,
}

impl<'g> Filling<'g> {
    fn of(given: &'g Given) -> Self {
        Filling { given, room: LARGEST }
    }

    fn resolved(&mut self, value: &Value, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err("it is nested too deeply".to_owned());
        }
        match value {
            Value::Object(fields) => match (fields.len(), fields.get(FROM)) {
                (1, Some(Value::String(path))) => {
                    let found = at(path, self.given)?;
                    self.take_whole(found)?;
                    Ok(found.clone())
                }
                _ => self.fields(fields, depth).map(Value::Object),
            },
            Value::Array(items) => {
                self.take(SLOT)?;
                let inner = items.iter().map(|item| self.resolved(item, depth + 1));
                inner.collect::<Result<Vec<_>, _>>().map(Value::Array)
            }
            plain => {
                self.take_whole(plain)?;
                Ok(plain.clone())
            }
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<Map<String, Value>, String> {
        self.take(SLOT)?;
        let mut filled = Map::new();
        for (key, value) in fields {
            self.take(key.len())?;
            filled.insert(key.clone(), self.resolved(value, depth + 1)?);
        }
        Ok(filled)
    }

    /// Charges a value with all its members to the budget, before it is copied.
    fn take_whole(&mut self, value: &Value) -> Result<(), String> {
        self.take(SLOT + value.as_str().map_or(0, str::len))?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.take_whole(item)),
            Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
                self.take(key.len())?;
                self.take_whole(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.room.checked_sub(bytes);
        self.room =
            left.ok_or_else(|| format!("with its references resolved it is larger than {LARGEST} bytes"))?;
        Ok(())
    }
}

/// Resolves `STEP.output.…`, `STEP.success` or `STEP.error`. The id of a step may contain dots; the longest
/// match wins.
fn at<'g>(path: &str, given: &'g Given) -> Result<&'g Value, String> {
    let missing = || {
        let path = tool::visible_line(&tool::shorten(path, 128));
        format!("`{path}` refers to no result of an earlier step")
    };
    let of = given.iter().filter_map(|(id, one)| {
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

    fn given() -> Given {
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
            assert_eq!(Filling::of(&given()).resolved(&value, 0).ok(), expect, "{value}");
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
        assert!(Plan::read(steps(MOST_STEPS)).is_ok());
        for bad in [
            steps(MOST_STEPS + 1),
            json!({"steps": [step(1), step(1)]}),
            json!({"steps": [{"tool": "t"}]}),
            json!({"steps": [], "also": 1}),
            json!({"steps": [{"id": "\u{1b}[2J", "tool": "t"}]}),
            json!({"steps": [{"id": "a\u{202e}b", "tool": "t"}]}),
            json!({"steps": [{"id": "", "tool": "t"}]}),
            json!({"steps": [{"id": "i".repeat(LONGEST_ID + 1), "tool": "t"}]}),
            json!([]),
            json!(null),
        ] {
            assert!(Plan::read(bad.clone()).is_err(), "{bad}");
        }
        let plan = Plan::read(json!({"steps": [], "output": {"n": {"$from": "a.output.list.0"}}})).unwrap();
        assert_eq!(plan.answer(&given()), Ok(json!({"n": 1})));
        let each = Plan::of_each(&["x".to_owned(), "y".to_owned()], &Map::new()).unwrap();
        assert_eq!(each.steps.iter().map(|step| step.tool.as_str()).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(each.answer(&given()).unwrap()["a"], json!({"list": [1, {"n": "x"}]}));
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
            Plan::read(json!({"steps": [step], "output": references})).unwrap()
        };
        assert!(plan(4).steps[0].arguments(&given).is_ok() && plan(4).answer(&given).is_ok());
        for count in [5, 20_000] {
            let why = plan(count).steps[0].arguments(&given).unwrap_err();
            assert!(why.contains("larger than"), "{why}");
            assert!(plan(count).answer(&given).is_err());
        }
        given.insert("one".to_owned(), json!({"output": vec![0; LARGEST / SLOT]}));
        assert!(plan(1).answer(&given).is_err(), "small values count too");
        let own = Filling::of(&given).resolved(&json!(vec!["x".repeat(1 << 20); 5]), 0);
        assert!(own.is_err(), "values without references count too");
    }

    #[test]
    fn caller_arguments_are_passed_on_unchanged() {
        let Value::Object(arguments) = json!({"tags": [{"$from": "a.output"}]}) else { panic!("an object") };
        let each = Plan::of_each(&["x".to_owned()], &arguments).unwrap();
        assert_eq!(each.steps[0].arguments(&given()), Ok(arguments));
        let many: Vec<String> = (0..=MOST_STEPS).map(|n| format!("t{n}")).collect();
        assert!(Plan::of_each(&many, &Map::new()).is_err());
    }
}
