//! Examples as tests: each call is held against the schema and the validators of its own tool, what it is said to answer
//! against what the tool promises, and, where that is safe, against what the tool answers.

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

/// An example that was tried.
struct Tried {
    tool: String,
    scenario: String,
    how: How,
    /// Why it is broken; nothing where it holds.
    broken: Option<String>,
}

/// How far it was tried.
#[derive(Debug, PartialEq, Eq)]
enum How {
    /// As far as the tool.
    Checked,
    /// The tool was run.
    Run,
    /// The tool would have been run: why it was not.
    NotRun(String),
}

pub(super) fn run(setting: &Setting, manifests: &[Manifest], output: JsonArgs) -> Result<Exit, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::new(Exit::Failed, error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let mut registry = ToolRegistry::new();
    let (sandbox, web) = (Sandbox::of_this_process(), compose::web(&Settings::default())?);
    // The rules are about these as well.
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
    // A thread that is stuck must not keep the command from ending.
    runtime.shutdown_background();
    show(&tried, output)
}

/// Whether an example says what would happen, as far as that can be known without running it.
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
        (true, None) => Some("the call is valid, and the example says it is not".to_owned()),
        (true, Some(refusal)) => drift(example, &refusal),
    }
}

/// Whether the call of an example is itself what is wrong, and not what becomes of it.
fn is_about_arguments(example: &Example) -> bool {
    let code = example.error.as_ref().and_then(|error| error.code.as_deref()).unwrap_or_default();
    example.scenario == "failure_invalid_param" || matches!(code, "VALIDATION_ERROR" | "FORMAT_ERROR")
}

/// What an example says is answered, where the command promises something else.
fn unpromised(command: &Command, example: &Example) -> Option<String> {
    let (promised, output) = (command.output_schema.clone()?, example.output.as_ref()?);
    // One that cannot be compiled was told of already.
    let promised = InputSchema::compile(&Value::Object(promised)).ok()?;
    let objection = promised.objection(output)?;
    Some(format!("the answer of the example is not what `output_schema` promises: {objection}"))
}

/// An example whose words are no longer those of the refusal teaches something else than what happens.
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
        let mark = if one.broken.is_none() { paint(GOOD, "holds") } else { paint(BAD, "broken") };
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
    say(format!("{} of {} hold", tried.len() - broken, tried.len()))?;
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
