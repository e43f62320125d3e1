//! What an orchestration helper answers: calls in their order, whose arguments may refer to what earlier ones gave.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A plan may not have more steps: it is made by a function, and a function can be wrong.
pub(crate) const MOST_STEPS: usize = 16;
/// The key of an object that stands for something an earlier step gave.
const FROM: &str = "$from";
/// Deeper than this nobody writes arguments.
const DEEPEST: usize = 32;

/// Calls, one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// What the whole answers, with references; what each step gave where it is left out.
    #[serde(default)]
    output: Option<Value>,
}

/// One call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// What later steps call it.
    pub(crate) id: String,
    pub(crate) tool: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
    /// Whether the plan goes on where it does not succeed.
    #[serde(default)]
    pub(crate) optional: bool,
}

/// What the steps so far gave, by id: `{success, output, error}` each.
pub(crate) type Given = Map<String, Value>;

impl Plan {
    /// The plan that a helper answered.
    pub(crate) fn read(answer: Value) -> Result<Plan, String> {
        let plan: Plan = serde_json::from_value(answer).map_err(|error| format!("it is no plan: {error}"))?;
        if plan.steps.len() > MOST_STEPS {
            return Err(format!("it has {} steps; {MOST_STEPS} are the most", plan.steps.len()));
        }
        let mut seen = std::collections::HashSet::new();
        match plan.steps.iter().find(|step| !seen.insert(step.id.as_str())) {
            Some(twice) => Err(format!("it has two steps `{}`", tool::shorten(&twice.id, 64))),
            None => Ok(plan),
        }
    }

    /// Each of these tools in turn, with the same arguments.
    pub(crate) fn of_each(tools: &[String], arguments: &Map<String, Value>) -> Result<Plan, String> {
        let step = |tool: &String| json!({"id": tool, "tool": tool, "arguments": arguments});
        Plan::read(json!({"steps": tools.iter().map(step).collect::<Vec<_>>()}))
    }

    /// What the whole answers.
    pub(crate) fn answer(&self, given: &Given) -> Result<Value, String> {
        match &self.output {
            Some(output) => resolved(output, given, 0),
            None => {
                let output = |(id, one): (&String, &Value)| (id.clone(), one["output"].clone());
                Ok(Value::Object(given.iter().map(output).collect()))
            }
        }
    }
}

impl Step {
    /// Its arguments, with what they refer to put in.
    pub(crate) fn arguments(&self, given: &Given) -> Result<Map<String, Value>, String> {
        let put_in = |(key, value): (&String, &Value)| Ok((key.clone(), resolved(value, given, 1)?));
        self.arguments.iter().map(put_in).collect()
    }
}

fn resolved(value: &Value, given: &Given, depth: usize) -> Result<Value, String> {
    if depth > DEEPEST {
        return Err("it is nested too deeply".to_owned());
    }
    match value {
        Value::Object(fields) => match (fields.len(), fields.get(FROM)) {
            (1, Some(Value::String(path))) => at(path, given),
            _ => {
                let inner =
                    |(key, value): (&String, &Value)| Ok((key.clone(), resolved(value, given, depth + 1)?));
                fields.iter().map(inner).collect::<Result<Map<_, _>, String>>().map(Value::Object)
            }
        },
        Value::Array(items) => {
            let inner = items.iter().map(|item| resolved(item, given, depth + 1));
            inner.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        other => Ok(other.clone()),
    }
}

/// What is at `STEP.output.…`, `STEP.success` or `STEP.error`. The id of a step may have dots of its own.
fn at(path: &str, given: &Given) -> Result<Value, String> {
    let missing = || format!("`{}` refers to nothing that an earlier step gave", tool::shorten(path, 128));
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
    Ok(found.clone())
}

#[cfg(test)]
mod tests {
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
    fn references_are_put_in_wherever_they_stand() {
        let check = |value: Value, expect: Option<Value>| {
            assert_eq!(resolved(&value, &given(), 0).ok(), expect, "{value}");
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
    fn a_plan_is_bounded_and_its_steps_have_names_of_their_own() {
        let step = |id: usize| json!({"id": id.to_string(), "tool": "t"});
        let steps = |count: usize| json!({"steps": (0..count).map(step).collect::<Vec<_>>()});
        assert!(Plan::read(steps(MOST_STEPS)).is_ok());
        for bad in [
            steps(MOST_STEPS + 1),
            json!({"steps": [step(1), step(1)]}),
            json!({"steps": [{"tool": "t"}]}),
            json!({"steps": [], "also": 1}),
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
}
