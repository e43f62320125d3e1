//! The check itself: all problems at once, and the refusal that lets the caller fix them in one step.

use std::sync::Arc;

use serde_json::Value;
use tool::{Arguments, Problem, Refusal, RefusalCode, ToolDefinition};

use crate::schema::InputSchema;
use crate::{ValidCall, example, problem};

/// More problems than this are counted, not listed: a refusal is read by a model with a budget.
const MOST_PROBLEMS: usize = 16;

/// Checks arguments against the tool's schema and fills in its defaults.
pub fn check(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<ValidCall, Box<Refusal>> {
    let whole = match arguments {
        Value::Null => Value::Object(Arguments::new()),
        other => other,
    };
    let filled = with_defaults(definition, whole);
    let problems: Vec<Problem> = schema
        .validator()
        .iter_errors(&filled)
        .flat_map(|error| problem::problems(&error, definition))
        .collect();
    match filled {
        Value::Object(arguments) if problems.is_empty() => {
            Ok(ValidCall::new(Arc::clone(definition), arguments))
        }
        Value::Object(_) => Err(Box::new(refusal(definition, problems))),
        other => Err(Box::new(refusal(definition, not_an_object(definition, &other)))),
    }
}

fn with_defaults(definition: &ToolDefinition, arguments: Value) -> Value {
    let Value::Object(mut arguments) = arguments else { return arguments };
    for parameter in definition.parameters() {
        let Some(default) = parameter.default.as_ref().filter(|default| !default.is_null()) else { continue };
        arguments.entry(&parameter.name).or_insert_with(|| default.clone());
    }
    Value::Object(arguments)
}

/// Whatever came instead of an object holds none of the required fields.
fn not_an_object(definition: &ToolDefinition, came: &Value) -> Vec<Problem> {
    let kind = match came {
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Bool(_) => "boolean",
        _ => "number",
    };
    let shape = Problem {
        pointer: String::new(),
        expected: "object".into(),
        got: kind.into(),
        message: format!("the arguments must be an object, not {kind}"),
    };
    let required = definition.parameters().iter().filter(|parameter| parameter.must_be_given());
    let missing = required.map(|parameter| Problem {
        pointer: format!("/{}", parameter.name),
        expected: parameter.kind.as_str().into(),
        got: MISSING.into(),
        message: format!("`{}` is required", parameter.name),
    });
    std::iter::once(shape).chain(missing).collect()
}

const MISSING: &str = "nothing";

fn refusal(definition: &ToolDefinition, mut problems: Vec<Problem>) -> Refusal {
    let tool = definition.name().as_str();
    let example = example::of(definition);
    let missing: Vec<&str> =
        problems.iter().filter(|p| p.got == MISSING).map(|p| p.pointer.trim_start_matches('/')).collect();
    let others: Vec<&str> =
        problems.iter().filter(|p| p.got != MISSING).map(|p| p.message.as_str()).collect();
    let schema_error =
        problems.iter().map(|p| p.message.as_str()).take(MOST_PROBLEMS).collect::<Vec<_>>().join("; ");

    let mut reason = format!("⚠️ Invalid {tool} call.");
    if !missing.is_empty() {
        reason.push_str(&format!(" Missing required fields: {}.", missing.join(", ")));
    }
    for message in others.iter().take(MOST_PROBLEMS) {
        reason.push_str(&format!(" {}.", message.trim_end_matches('?')));
    }
    reason.push_str(&format!(" Example: {example}"));

    let detail = if missing.is_empty() { "invalid_value" } else { "missing_field" };
    let hint =
        format!("send the call again with the {} corrected; `example` is accepted", counted(problems.len()));
    problems.truncate(MOST_PROBLEMS);
    let mut refusal = Refusal::new(tool, RefusalCode::InvalidArguments, reason).detail(detail).hint(hint);
    refusal.example = Some(example);
    refusal.problems = problems;
    refusal.schema_error = Some(schema_error);
    refusal
}

fn counted(problems: usize) -> String {
    if problems == 1 { "problem".into() } else { format!("{problems} problems") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    fn definition() -> Arc<ToolDefinition> {
        let mut spec = ToolSpec::new("write_file", "Write", Category::SYSTEM_WRITE, RiskLevel::High);
        spec.input_schema = Some(json!({"type": "object", "additionalProperties": false,
            "required": ["path", "content"], "properties": {
                "path": {"type": "string", "format": "path", "minLength": 1},
                "content": {"type": "string"},
                "mode": {"enum": ["create", "overwrite"], "default": "overwrite"},
                "tags": {"type": "array", "items": {"type": "integer", "minimum": 0}}}}));
        Arc::new(spec.check().unwrap())
    }

    fn run(arguments: Value) -> Result<ValidCall, Box<Refusal>> {
        let definition = definition();
        let schema = InputSchema::compile(definition.input_schema()).unwrap();
        check(&definition, &schema, arguments)
    }

    #[test]
    fn a_good_call_gets_its_defaults() {
        let call = run(json!({"path": "a", "content": ""})).unwrap();
        assert_eq!(call.arguments()["mode"], "overwrite");
        let call = run(json!({"path": "a", "content": "", "mode": "create"})).unwrap();
        assert_eq!(call.arguments()["mode"], "create");
    }

    #[test]
    fn every_problem_is_reported_with_its_place() {
        let refusal = run(json!({"path": 7, "contnet": "secret words", "tags": [1, -2, "x"]})).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.detail.as_deref()),
            (RefusalCode::InvalidArguments, Some("missing_field"))
        );
        let mut found: Vec<_> = refusal
            .problems
            .iter()
            .map(|p| (p.pointer.as_str(), p.expected.as_str(), p.got.as_str()))
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("/content", "string", "nothing"),
                ("/contnet", "no such argument", "an unknown argument"),
                ("/path", "string", "number"),
                ("/tags/1", "at least 0", "number"),
                ("/tags/2", "integer", "string"),
            ]
        );
        let text = serde_json::to_string(&refusal).unwrap();
        assert!(text.contains("did you mean `content`"), "{text}");
        assert!(!text.contains("secret words"), "a value must not be repeated: {text}");
        assert!(refusal.schema_error.is_some());
    }

    #[test]
    fn the_message_has_the_documents_shape() {
        let refusal = run(json!({"path": "a"})).unwrap_err();
        assert_eq!(
            refusal.reason,
            "⚠️ Invalid write_file call. Missing required fields: content. Example: {\"path\":\"notes.txt\",\"content\":\"…\"}"
        );
    }

    #[test]
    fn anything_but_an_object_lacks_every_field() {
        for wrong in [json!([]), json!("x"), json!(3), json!(true)] {
            let refusal = run(wrong.clone()).unwrap_err();
            assert!(
                refusal.reason.contains("Missing required fields: path, content."),
                "{wrong}: {}",
                refusal.reason
            );
        }
        let refusal = run(Value::Null).unwrap_err();
        assert_eq!(refusal.problems.len(), 2, "null is an empty object");
    }

    #[test]
    fn the_list_is_bounded() {
        let many: Arguments = (0..1000).map(|n| (format!("k{n}"), json!(1))).collect();
        let refusal = run(Value::Object(many)).unwrap_err();
        assert_eq!(refusal.problems.len(), MOST_PROBLEMS);
        assert!(refusal.reason.len() < 4096, "{}", refusal.reason.len());
    }

    #[test]
    fn the_example_passes_its_own_check() {
        let refusal = run(json!({})).unwrap_err();
        run(refusal.example.clone().unwrap()).unwrap();
    }
}
