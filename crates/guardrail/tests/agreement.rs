//! Random schemas and arguments: nothing panics, and a second validator, Python's `jsonschema`, gives the
//! same results. Without Python or the package, the test prints a note and skips the comparison; `cargo xtask
//! test` installs the package below `target`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // a test may fail

#[path = "agreement/random.rs"]
mod random;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use guardrail::InputSchema;
use serde_json::{Value, json};
use tool::{Category, RiskLevel, ToolDefinition, ToolSpec};

use random::{Dialect, SchemaRng};

const SCHEMAS: u64 = 400;
const INSTANCES: usize = 12;
const GARBAGE: usize = 2500;

/// Python program that reads `[schema, [instance, …]]` per line and prints a list of `true` and `false` per
/// line.
const PYTHON_VALIDATOR: &str = r#"
import json, sys
from jsonschema.validators import validator_for, Draft202012Validator
for line in sys.stdin:
    schema, instances = json.loads(line)
    validator = validator_for(schema, default=Draft202012Validator)(schema)
    print(json.dumps([validator.is_valid(instance) for instance in instances]))
"#;

/// Returns a tool with one argument `v` of this schema.
fn tool(schema: &Value, dialect: Dialect) -> Option<(Arc<ToolDefinition>, InputSchema)> {
    let mut spec = ToolSpec::new("t", "Random", Category::READ_ONLY, RiskLevel::Low);
    let mut whole = json!({"type": "object", "properties": {"v": schema}, "required": ["v"],
        "$defs": random::definitions(), "definitions": random::definitions()});
    if let Some(address) = dialect.address() {
        whole["$schema"] = json!(address);
    }
    spec.input_schema = Some(whole);
    let definition = Arc::new(spec.check().ok()?);
    let schema = InputSchema::compile(definition.input_schema()).ok()?;
    Some((definition, schema))
}

#[test]
fn second_validator_gives_the_same_results() {
    let Some(python) = python_with_jsonschema() else { return };
    let mut questions = String::new();
    let mut answers: Vec<Vec<bool>> = Vec::new();
    let mut random = SchemaRng::new(7);
    for n in 0..SCHEMAS {
        let dialect = if n % 4 == 0 { Dialect::Draft7 } else { Dialect::Newest };
        let schema = random.schema(3, dialect);
        let Some((definition, compiled)) = tool(&schema, dialect) else { continue };
        let instances: Vec<Value> = (0..INSTANCES).map(|_| json!({"v": random.instance(3)})).collect();
        questions.push_str(&json!([definition.input_schema(), instances]).to_string());
        questions.push('\n');
        let accepts = |arguments: Value| guardrail::check(&definition, &compiled, arguments).is_ok();
        answers.push(instances.into_iter().map(accepts).collect());
    }
    assert!(answers.len() as u64 > SCHEMAS * 3 / 4, "most schemas compile: {}", answers.len());
    let (all, accepted) =
        (answers.len() * INSTANCES, answers.iter().flatten().filter(|valid| **valid).count());
    assert!(
        accepted * 5 > all && accepted * 5 < all * 4,
        "accepted and refused are both frequent: {accepted} of {all}"
    );
    let others = run_python(&python, questions.clone());
    assert_eq!(others.len(), answers.len());
    for ((ours, theirs), question) in answers.iter().zip(&others).zip(questions.lines()) {
        assert_eq!(ours, theirs, "{question}");
    }
}

/// Returns the Python interpreter, if it has the package.
fn python_with_jsonschema() -> Option<String> {
    let python = std::env::var("SINEW_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_it = Command::new(&python).args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    if has_it.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    ::tests::left_out(&format!(
        "`{python}` has no package jsonschema to compare with; `cargo xtask test` installs it"
    ));
    None
}

fn run_python(python: &str, questions: String) -> Vec<Vec<bool>> {
    let mut child = Command::new(python)
        .args(["-c", PYTHON_VALIDATOR])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // A separate thread writes while this one reads, so that a full pipe cannot block both processes.
    let writer = std::thread::spawn(move || input.write_all(questions.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "Python failed");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn random_schemas_never_panic() {
    let mut random = SchemaRng::new(11);
    let mut usable = 0;
    for _ in 0..GARBAGE {
        let schema = random.garbage(4);
        let mut spec = ToolSpec::new("t", "Random", Category::READ_ONLY, RiskLevel::Low);
        spec.input_schema =
            Some(json!({"type": "object", "properties": {"v": schema}, "additionalProperties": false}));
        let Ok(definition) = spec.check() else { continue };
        let definition = Arc::new(definition);
        let Ok(schema) = InputSchema::compile(definition.input_schema()) else { continue };
        usable += 1;
        for _ in 0..3 {
            let arguments = match random.below(4) {
                0 => random.instance(3),
                1 => json!({"v": random.instance(3).to_string()}),
                2 => json!({"arguments": {"v": random.instance(2)}}),
                _ => json!({"v": random.instance(3)}),
            };
            if let Err(refusal) = guardrail::check(&definition, &schema, arguments) {
                assert!(!refusal.problems.is_empty() && refusal.problems.len() <= 16, "{refusal:?}");
                assert!(serde_json::to_string(&refusal).unwrap().len() < 32 * 1024);
            }
        }
    }
    assert!(usable > GARBAGE / 10, "{usable} schemas were usable");
}
