//! Runs the examples of manifests as tests. Each example call is checked against the schema and validators of
//! its tool. Its output is checked against `output_schema` and, where running the tool is safe, against the
//! real output.

mod running;

use connectors::{Connectors, Road};
use guardrail::{InputSchema, fits};
use manifest::{Command, Example, Manifest};
use registry::{Tool, ToolRegistry};
use sandbox::Sandbox;
use serde_json::{Value, json};
use server::Settings;
use tool::Refusal;

use crate::cli::JsonArgs;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, paint, say, visible_line};
use crate::{compose, functions};
use running::Trial;

/// Result of testing one example.
struct Tried {
    tool: String,
    scenario: String,
    how: How,
    /// Reason for the failure, or `None` if the example passed.
    broken: Option<String>,
}

/// Extent of a test.
#[derive(Debug, PartialEq, Eq)]
enum How {
    /// The call was checked, and the tool did not have to run.
    Checked,
    /// The tool was run.
    Run,
    /// The tool should have been run but was not, for this reason.
    NotRun(String),
}

pub(super) fn run(setting: &Setting, manifests: &[Manifest], output: JsonArgs) -> Result<Exit, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::failed(error);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let mut registry = ToolRegistry::new();
    let (sandbox, web) = (Sandbox::of_this_process(), compose::web(&Settings::default())?);
    // The policy also refers to the built-in tools.
    let undo = compose::undo(setting, &Settings::default());
    toolbox::register(&mut registry, sandbox, toolbox::Internals::of_this_process(), web, &undo)
        .map_err(|error| failed(&error))?;
    let connectors =
        Connectors::new(sandbox, functions::of_this_process(), web.gatekeeper(), &Road::default());
    let mut tried: Vec<Tried> = Vec::new();
    for skipped in connectors.register(manifests, &mut registry) {
        let (tool, scenario, broken) = (skipped.name, "registered".to_owned(), Some(skipped.why));
        tried.push(Tried { tool, scenario, how: How::Checked, broken });
    }
    let mut trial = Trial::default();
    for manifest in manifests {
        for (command, definition) in manifest.tools() {
            let name = definition.name().as_str();
            let Some(tool) = registry.get(name) else { continue };
            for example in manifest.examples(&command.name) {
                let broken = runtime.block_on(hold(tool, example)).or_else(|| unpromised(command, example));
                if broken.is_none() && running::is_safe(manifest, definition, example) {
                    trial.add(tried.len(), name, example);
                }
                let (tool, scenario) = (name.to_owned(), example.scenario.clone());
                tried.push(Tried { tool, scenario, how: How::Checked, broken });
            }
        }
    }
    for (index, how, broken) in trial.run(setting, registry, &runtime) {
        if let Some(one) = tried.get_mut(index) {
            (one.how, one.broken) = (how, broken);
        }
    }
    // Do not wait for threads: a blocked one would keep the command from exiting.
    runtime.shutdown_background();
    show(&tried, output)
}

/// Checks an example without running the tool, and returns the reason if it fails.
async fn hold(tool: &Tool, example: &Example) -> Option<String> {
    let arguments = Value::Object(example.input.clone());
    let refused = match fits(tool.definition(), tool.schema(), arguments) {
        Ok(fitting) => fitting.validated().await.err(),
        Err(refusal) => Some(refusal),
    };
    let wrong = is_about_arguments(example);
    match (wrong, refused) {
        (false, None) => None,
        (false, Some(refusal)) => Some(format!("the call is refused: {}", refusal.reason)),
        (true, None) => Some("the call is valid, but the example says it is not".to_owned()),
        (true, Some(refusal)) => drift(example, &refusal),
    }
}

/// Returns true if the example shows invalid arguments, as opposed to a valid call that fails.
fn is_about_arguments(example: &Example) -> bool {
    let code = example.error.as_ref().and_then(|error| error.code.as_deref()).unwrap_or_default();
    example.scenario == "failure_invalid_param" || matches!(code, "VALIDATION_ERROR" | "FORMAT_ERROR")
}

/// Returns the mismatch between the output of an example and the `output_schema` of its command.
fn unpromised(command: &Command, example: &Example) -> Option<String> {
    let (promised, output) = (command.output_schema.clone()?, example.output.as_ref()?);
    // A schema that does not compile was already reported as a diagnostic.
    let promised = InputSchema::compile(&Value::Object(promised)).ok()?;
    let objection = promised.objection(output)?;
    Some(format!("the output of the example does not match `output_schema`: {objection}"))
}

/// Returns the difference between the error message of an example and the actual refusal. An outdated message
/// would mislead the model.
fn drift(example: &Example, refusal: &Refusal) -> Option<String> {
    if matches!(refusal.detail.as_deref(), Some("validator_failed" | "validator_unavailable")) {
        return Some(refusal.reason.clone());
    }
    let wanted = example.error.as_ref().and_then(|error| error.message.as_deref())?;
    let said = refusal.problems.iter().map(|problem| problem.message.as_str());
    let said: String = said.chain([refusal.reason.as_str()]).collect::<Vec<_>>().join("\n");
    let found = said.to_lowercase().contains(&wanted.to_lowercase());
    (!found).then(|| format!("the example says `{wanted}`, the refusal says: {}", refusal.reason))
}

fn show(tried: &[Tried], output: JsonArgs) -> Result<Exit, Problem> {
    let broken = tried.iter().filter(|one| one.broken.is_some()).count();
    let exit = if broken == 0 { Exit::Done } else { Exit::Failed };
    if output.json {
        let cases: Vec<Value> = tried.iter().map(told).collect();
        say(json!({"schema_version": 1, "passed": tried.len() - broken, "failed": broken, "cases": cases}))?;
        return Ok(exit);
    }
    for one in tried {
        let mark = if one.broken.is_none() { paint(GOOD, "passed") } else { paint(BAD, "failed") };
        let how = match &one.how {
            How::Checked => String::new(),
            How::Run => " (the tool was run)".to_owned(),
            How::NotRun(why) => format!(" (the tool was not run: {})", visible_line(why)),
        };
        say(format!("{mark} {} {}{how}", visible_line(&one.tool), visible_line(&one.scenario)))?;
        if let Some(why) = &one.broken {
            say(format!("       {}", visible_line(why)))?;
        }
    }
    say(format!("{} of {} passed", tried.len() - broken, tried.len()))?;
    Ok(exit)
}

fn told(one: &Tried) -> Value {
    let (tried, not_run) = match &one.how {
        How::Checked => ("checked", None),
        How::Run => ("run", None),
        How::NotRun(why) => ("checked", Some(why)),
    };
    json!({"tool": one.tool, "scenario": one.scenario, "holds": one.broken.is_none(), "why": one.broken,
        "tried": tried, "not_run": not_run})
}
