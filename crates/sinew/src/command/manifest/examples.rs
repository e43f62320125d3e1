//! Runs the examples of manifests as tests. Each example call is checked against the schema and validators of
//! its tool. Its output is checked against `output_schema` and, where running the tool is safe, against the
//! real output.

mod example_runs;

use connectors::{Connectors, PipelineEntry};
use guardrail::{InputSchema, check_schema};
use manifest::{CommandExample, Manifest, ManifestCommandSpec, ToolType};
use registry::{Tool, ToolRegistry};
use sandbox::Sandbox;
use serde_json::{Value, json};
use server::settings::Settings;
use tool::{Refusal, RefusalCode};

use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{ERROR_STYLE, SUCCESS_STYLE, escape_invisible_line, paint, print_result_line};
use crate::{compose, function_workers};
use example_runs::ExampleRuns;

/// Result of testing one example.
struct ExampleResult {
    tool: String,
    scenario: String,
    extent: TestExtent,
    /// Reason for the failure, or `None` if the example passed.
    failure: Option<String>,
}

/// Extent of a test.
#[derive(Debug, PartialEq, Eq)]
enum TestExtent {
    /// The call was checked, and the tool did not have to run.
    Checked,
    /// The tool was run.
    Run,
    /// The call was checked, and a stub that returns the output of the example stood in for the server.
    Stub,
    /// The tool should have been run but was not, for this reason.
    NotRun(String),
}

pub(super) fn run(
    context: &CommandContext,
    manifests: &[Manifest],
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(error);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let mut registry = ToolRegistry::new();
    let (sandbox, web) = (Sandbox::of_this_process(), compose::shared_web(&Settings::default())?);
    // The policy also refers to the built-in tools.
    let undo = compose::undo_store(context, &Settings::default());
    toolbox::register(&mut registry, sandbox, toolbox::Internals::of_this_process(), web, &undo)
        .map_err(|error| failed(&error))?;
    let connectors = Connectors::new(
        sandbox,
        function_workers::shared_workers(),
        web.gateway(),
        &PipelineEntry::default(),
    );
    let mut tried: Vec<ExampleResult> = Vec::new();
    for skipped in connectors.register(manifests, &mut registry) {
        let (tool, scenario, failure) = (skipped.name, "registered".to_owned(), Some(skipped.reason));
        tried.push(ExampleResult { tool, scenario, extent: TestExtent::Checked, failure });
    }
    let mut trial = ExampleRuns::default();
    for manifest in manifests {
        for (command, definition) in manifest.tools() {
            let name = definition.name().as_str();
            let Some(tool) = registry.get(name) else { continue };
            for example in manifest.examples(&command.name) {
                let failure = runtime
                    .block_on(check_example(tool, example))
                    .or_else(|| output_mismatch(command, example));
                if failure.is_none() && example_runs::is_safe_to_run(manifest, definition, example) {
                    trial.add(tried.len(), name, example);
                }
                let (tool, scenario) = (name.to_owned(), example.scenario.clone());
                let is_served = manifest.kind() == ToolType::Mcp && example.output.is_some();
                let extent = if is_served { TestExtent::Stub } else { TestExtent::Checked };
                tried.push(ExampleResult { tool, scenario, extent, failure });
            }
        }
    }
    for (index, how, failure) in trial.run(context, registry, &runtime) {
        if let Some(one) = tried.get_mut(index) {
            (one.extent, one.failure) = (how, failure);
        }
    }
    // Do not wait for threads: a blocked one would keep the command from exiting.
    runtime.shutdown_background();
    show_results(&tried, output)
}

/// Checks an example without running the tool, and returns the reason if it fails.
async fn check_example(tool: &Tool, example: &CommandExample) -> Option<String> {
    let arguments = Value::Object(example.input.clone());
    let refused = match check_schema(tool.definition(), tool.schema(), arguments) {
        Ok(schema_checked) => schema_checked.run_validators().await.err(),
        Err(refusal) => Some(refusal),
    };
    let wrong = has_invalid_arguments(example);
    match (wrong, refused) {
        (false, None) => None,
        (false, Some(refusal)) => Some(format!("the call is refused: {}", refusal.reason)),
        (true, None) => Some("the call is valid, but the example says it is not".to_owned()),
        (true, Some(refusal)) => message_mismatch(example, &refusal),
    }
}

/// Returns true if the example shows invalid arguments, as opposed to a valid call that fails.
fn has_invalid_arguments(example: &CommandExample) -> bool {
    let code = example.error.as_ref().and_then(|error| error.code.as_deref()).unwrap_or_default();
    example.scenario == "failure_invalid_param" || matches!(code, "VALIDATION_ERROR" | "FORMAT_ERROR")
}

/// Returns the mismatch between the output of an example and the `output_schema` of its command.
fn output_mismatch(command: &ManifestCommandSpec, example: &CommandExample) -> Option<String> {
    let (promised, output) = (command.output_schema.clone()?, example.output.as_ref()?);
    // A schema that does not compile was already reported as a diagnostic.
    let promised = InputSchema::compile(&Value::Object(promised)).ok()?;
    let objection = promised.first_error(output)?;
    Some(format!("the output of the example does not match `output_schema`: {objection}"))
}

/// Returns the difference between the error message of an example and the actual refusal. An outdated message
/// would mislead the model.
fn message_mismatch(example: &CommandExample, refusal: &Refusal) -> Option<String> {
    if matches!(refusal.detail.as_deref(), Some("validator_failed" | "validator_unavailable")) {
        return Some(refusal.reason.clone());
    }
    let expected = example.error.as_ref()?;
    if expected.code.as_deref().is_some_and(|code| matches_code(code, refusal)) {
        return None;
    }
    let wanted = expected.message.as_deref()?;
    let text = refusal.problems.iter().map(|problem| problem.message.as_str());
    let text: String = text.chain([refusal.reason.as_str()]).collect::<Vec<_>>().join("\n");
    let plain = |text: &str| text.to_lowercase().replace('`', "");
    let found = plain(&text).contains(&plain(wanted));
    (!found).then(|| format!("the example says `{wanted}`, the refusal says: {}", refusal.reason))
}

/// Returns true if the error code of an example stands for this refusal: its own code, or the word of the
/// specification for invalid arguments.
fn matches_code(code: &str, refusal: &Refusal) -> bool {
    let code = code.to_ascii_lowercase();
    let is_own = code == refusal.code.as_str() || Some(code.as_str()) == refusal.detail.as_deref();
    let about_arguments =
        [RefusalCode::InvalidArguments, RefusalCode::ValidatorRejected].contains(&refusal.code);
    is_own || (code == "validation_error" && about_arguments)
}

fn show_results(tried: &[ExampleResult], output: JsonArgs) -> Result<ExitKind, CommandError> {
    let broken = tried.iter().filter(|one| one.failure.is_some()).count();
    let exit = if broken == 0 { ExitKind::Done } else { ExitKind::Failed };
    if output.json {
        let cases: Vec<Value> = tried.iter().map(result_json).collect();
        render::print_json(json!({"passed": tried.len() - broken, "failed": broken, "cases": cases}))?;
        return Ok(exit);
    }
    for one in tried {
        let mark =
            if one.failure.is_none() { paint(SUCCESS_STYLE, "passed") } else { paint(ERROR_STYLE, "failed") };
        let how = match &one.extent {
            TestExtent::Checked => String::new(),
            TestExtent::Run => " (the tool was run)".to_owned(),
            TestExtent::Stub => " (against a stub: the server was not started)".to_owned(),
            TestExtent::NotRun(why) => format!(" (the tool was not run: {})", escape_invisible_line(why)),
        };
        print_result_line(format!(
            "{mark} {} {}{how}",
            escape_invisible_line(&one.tool),
            escape_invisible_line(&one.scenario)
        ))?;
        if let Some(why) = &one.failure {
            print_result_line(format!("       {}", escape_invisible_line(why)))?;
        }
    }
    print_result_line(format!("{} passed, {broken} failed", tried.len() - broken))?;
    Ok(exit)
}

fn result_json(one: &ExampleResult) -> Value {
    let (tried, not_run) = match &one.extent {
        TestExtent::Checked => ("checked", None),
        TestExtent::Run => ("run", None),
        TestExtent::Stub => ("stub", None),
        TestExtent::NotRun(why) => ("checked", Some(why)),
    };
    json!({"tool": one.tool, "scenario": one.scenario, "holds": one.failure.is_none(), "why": one.failure,
        "tried": tried, "not_run": not_run})
}
