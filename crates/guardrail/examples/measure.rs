//! Benchmark of the guardrail: `cargo run --release -p guardrail --example measure -- [rounds]`.
//!
//! Prints the cost of checking small valid calls with the shipped curated map loaded, then the cost of a
//! refusal with its example and repair. With `count small N` or `count refusal N` it repeats that check N
//! times and prints nothing, which suits an instruction counter.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use guardrail::{CuratedGuardrails, Guardrail, InputSchema, KnownTool};
use serde_json::{Value, json};
use tool::{Category, RiskLevel, ToolDefinition, ToolSpec};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Number of calls timed together, because one call is shorter than a clock tick.
const CALLS_PER_SAMPLE: u32 = 64;
/// Upper bound for the check of a small call.
const MAX_SMALL_CALL_TIME: Duration = Duration::from_micros(5);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let curated = CuratedGuardrails::embedded()?;
    let (definition, schema) = write_file()?;
    let known = KnownTool { definition: &definition, schema: &schema };
    let no_tools = |_: &str| None;
    let guard = Guardrail::new(&curated, &no_tools);
    let small = json!({"path": "notes/today.txt", "content": "Remember the milk.\n"});
    let all = json!({"path": "notes/today.txt", "content": "x", "mode": "append", "expected_sha256": "0".repeat(64)});
    let wrong = json!({"file_path": "notes/today.txt", "text": "Remember the milk.\n"});
    let passes = |arguments: Value| black_box(guard.check(known, arguments)).is_ok();
    if !passes(small.clone()) || !passes(all.clone()) || passes(wrong.clone()) {
        return Err("the guardrail does not accept and refuse the calls to be measured".into());
    }
    let rounds = match words.as_slice() {
        [] => 5_000,
        [rounds] => rounds.parse()?,
        ["count", what, times] => {
            let arguments = if *what == "refusal" { &wrong } else { &small };
            for _ in 0..times.parse::<usize>()? {
                black_box(passes(arguments.clone()));
            }
            return Ok(());
        }
        other => {
            return Err(
                format!("unknown arguments {other:?}: pass `[rounds]` or `count small|refusal N`").into()
            );
        }
    };
    let median = measure("check of a small call", rounds, &small, passes);
    measure("check of a call with every argument", rounds, &all, passes);
    measure("refusal with example and repair", rounds / 10, &wrong, passes);
    let found = if median <= MAX_SMALL_CALL_TIME { "within" } else { "OVER" };
    println!("bound for a small call is {MAX_SMALL_CALL_TIME:?}: {found}");
    Ok(())
}

/// Definition and schema shaped like the built-in `write_file` tool.
fn write_file() -> Result<(Arc<ToolDefinition>, InputSchema)> {
    let mut spec = ToolSpec::new("write_file", "Write a file", Category::SYSTEM_WRITE, RiskLevel::High);
    spec.input_schema = Some(
        json!({"type": "object", "additionalProperties": false, "required": ["path", "content"],
        "$defs": {"mode": {"type": "string", "enum": ["create", "overwrite", "append"]}},
        "properties": {
            "path": {"type": "string", "format": "path", "minLength": 1},
            "content": {"type": "string"},
            "mode": {"$ref": "#/$defs/mode", "default": "overwrite"},
            "expected_sha256": {"type": ["string", "null"], "pattern": "^[0-9a-fA-F]{64}$", "default": null}}}),
    );
    let definition = Arc::new(spec.check()?);
    let schema = InputSchema::compile(definition.input_schema())?;
    Ok((definition, schema))
}

/// Prints the median and the 99th percentile of one call, and returns the median.
fn measure(name: &str, rounds: usize, arguments: &Value, call: impl Fn(Value) -> bool) -> Duration {
    let mut times: Vec<Duration> = (0..rounds.max(1))
        .map(|_| {
            // The caller owns the arguments, so cloning them is not part of the check.
            let batch = vec![arguments.clone(); CALLS_PER_SAMPLE as usize];
            let begun = Instant::now();
            for arguments in batch {
                black_box(call(arguments));
            }
            begun.elapsed() / CALLS_PER_SAMPLE
        })
        .collect();
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    println!("{name:<44} {:>6.2} µs {:>6.2} µs", micros(at(50)), micros(at(99)));
    at(50)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
