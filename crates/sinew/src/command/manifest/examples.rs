//! Examples as tests: each call is held against the schema and the validators of its own tool. No tool is run.

use connectors::{Connectors, Road};
use guardrail::fits;
use manifest::{Example, Manifest};
use registry::{Tool, ToolRegistry};
use sandbox::Sandbox;
use serde_json::{Value, json};
use server::Settings;
use tool::Refusal;

use crate::cli::JsonArgs;
use crate::exit::{Exit, Problem};
use crate::terminal::{BAD, GOOD, paint, say, visible_line};
use crate::{compose, functions};

/// An example that was tried.
struct Tried {
    tool: String,
    scenario: String,
    /// Why it is broken; nothing where it holds.
    broken: Option<String>,
}

pub(super) fn run(manifests: &[Manifest], output: JsonArgs) -> Result<Exit, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::new(Exit::Failed, error.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let mut registry = ToolRegistry::new();
    let connectors = Connectors::new(
        Sandbox::of_this_process(),
        functions::of_this_process(),
        compose::web(&Settings::default())?.gatekeeper(),
        &Road::default(),
    );
    let mut tried: Vec<Tried> = Vec::new();
    for skipped in connectors.register(manifests, &mut registry) {
        tried.push(Tried {
            tool: skipped.name,
            scenario: "registered".to_owned(),
            broken: Some(skipped.why),
        });
    }
    for manifest in manifests {
        for (command, definition) in manifest.tools() {
            let name = definition.name().as_str();
            let Some(tool) = registry.get(name) else { continue };
            for example in manifest.examples(&command.name) {
                let broken = runtime.block_on(hold(tool, example));
                tried.push(Tried { tool: name.to_owned(), scenario: example.scenario.clone(), broken });
            }
        }
    }
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
        let cases: Vec<Value> = tried
            .iter()
            .map(|one| {
                let holds = one.broken.is_none();
                json!({"tool": one.tool, "scenario": one.scenario, "holds": holds, "why": one.broken})
            })
            .collect();
        say(json!({"schema_version": 1, "passed": tried.len() - broken, "failed": broken, "cases": cases}))?;
        return Ok(exit);
    }
    for one in tried {
        let mark = if one.broken.is_none() { paint(GOOD, "holds") } else { paint(BAD, "broken") };
        say(format!("{mark} {} {}", visible_line(&one.tool), visible_line(&one.scenario)))?;
        if let Some(why) = &one.broken {
            say(format!("       {}", visible_line(why)))?;
        }
    }
    say(format!("{} of {} hold", tried.len() - broken, tried.len()))?;
    Ok(exit)
}
