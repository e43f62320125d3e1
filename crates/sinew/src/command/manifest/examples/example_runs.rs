//! Runs examples: those of local read-only tools that depend on nothing but their arguments, if the policy of
//! this home permits the call without approval. The output of the tool must contain everything in the output
//! of the example.

use std::sync::Arc;

use approvals::ApprovalMode;
use execution::{CallRequest, ToolExecutionLayer};
use manifest::{CommandExample, Manifest, ToolType};
use registry::ToolRegistry;
use serde_json::Value;
use tokio::runtime::Runtime;
use tool::text::shorten;
use tool::{Category, FailureKind, ToolDefinition, ToolResult};

use super::TestExtent;
use crate::command::call;
use crate::command_context::CommandContext;
use crate::compose::{self, TestAccess};
use crate::exit::CommandError;

/// Maximum length of an output in a message.
const MAX_OUTPUT_LENGTH: usize = 400;

/// Returns true if an example can be run: its tool is a sandboxed read-only program, and its arguments name
/// no path, host or URL, because the example does not define what is there. Servers are not started, and meta
/// tools are not called.
pub(super) fn is_safe_to_run(
    manifest: &Manifest,
    definition: &ToolDefinition,
    example: &CommandExample,
) -> bool {
    let paths = definition.path_arguments().iter().map(|argument| argument.key.as_str());
    let external_keys = definition.external_target_arguments().iter().map(|argument| argument.key.as_str());
    example.output.is_some()
        && example.error.is_none()
        && matches!(manifest.kind(), ToolType::Cli | ToolType::Local)
        && *definition.category() == Category::READ_ONLY
        && !paths.chain(external_keys).any(|key| example.input.contains_key(key))
}

/// Examples to be run.
#[derive(Default)]
pub(super) struct ExampleRuns {
    calls: Vec<(usize, String, CommandExample)>,
}

impl ExampleRuns {
    /// Adds an example with its index in the list of results.
    pub(super) fn add(&mut self, index: usize, tool: &str, example: &CommandExample) {
        self.calls.push((index, tool.to_owned(), example.clone()));
    }

    /// Runs the examples one after another.
    pub(super) fn run(
        self,
        context: &CommandContext,
        registry: ToolRegistry,
        runtime: &Runtime,
    ) -> Vec<(usize, TestExtent, Option<String>)> {
        if self.calls.is_empty() {
            return Vec::new();
        }
        let folder = tempfile::Builder::new().prefix("sinew-test-").tempdir();
        let folder = folder.map_err(|error| {
            CommandError::configuration(format!("no temporary folder could be created: {error}"))
        });
        let _guard = runtime.enter();
        let layer = folder.and_then(|folder| {
            Ok((compose::test_layer(context, registry, folder.path(), TestAccess::Nothing)?, folder))
        });
        let calls = self.calls.into_iter();
        match layer {
            Ok((layer, _folder)) => calls
                .map(|(index, tool, example)| {
                    let result = runtime.block_on(run_example(&layer, context, tool, &example));
                    let (how, broken) = evaluate_result(&result, &example);
                    (index, how, broken)
                })
                .collect(),
            Err(problem) => {
                calls.map(|(index, ..)| (index, TestExtent::NotRun(problem.message.clone()), None)).collect()
            }
        }
    }
}

async fn run_example(
    layer: &Arc<ToolExecutionLayer>,
    context: &CommandContext,
    tool: String,
    example: &CommandExample,
) -> ToolResult {
    let request = call::embedded_request(context, tool, Value::Object(example.input.clone()));
    layer.execute(CallRequest { approval_mode: ApprovalMode::Never, cwd: None, ..request }).await
}

/// Derives from the result of a call whether the tool ran, and the reason if the example failed.
fn evaluate_result(result: &ToolResult, example: &CommandExample) -> (TestExtent, Option<String>) {
    let error = result.error.clone().unwrap_or_default();
    if result.metadata.refusal.is_some() {
        return (TestExtent::NotRun(error), None);
    }
    match result.metadata.failure.as_ref().map(|failure| failure.kind) {
        // A program or file that the tool needs is not on this machine.
        Some(FailureKind::NotFound | FailureKind::Io) => (TestExtent::NotRun(error), None),
        Some(_) => (TestExtent::Run, Some(format!("the tool failed: {error}"))),
        None => {
            let wanted = example.output.as_ref().unwrap_or(&Value::Null);
            (TestExtent::Run, first_difference("", wanted, &result.output))
        }
    }
}

/// Returns the first difference between the wanted output and the actual one. The actual output may contain
/// more.
fn first_difference(at: &str, wanted: &Value, answered: &Value) -> Option<String> {
    match (wanted, answered) {
        (Value::Object(wanted), Value::Object(answered)) => wanted.iter().find_map(|(key, wanted)| {
            first_difference(&format!("{at}/{key}"), wanted, answered.get(key).unwrap_or(&Value::Null))
        }),
        (Value::Array(wanted), Value::Array(answered)) if wanted.len() == answered.len() => {
            let mut pairs = wanted.iter().zip(answered).enumerate();
            pairs.find_map(|(index, (wanted, answered))| {
                first_difference(&format!("{at}/{index}"), wanted, answered)
            })
        }
        // 3 and 3.0 are the same number.
        (Value::Number(wanted), Value::Number(answered)) if wanted.as_f64() == answered.as_f64() => None,
        _ if wanted == answered => None,
        _ => {
            let place = if at.is_empty() { String::new() } else { format!("at {at}: ") };
            let shown = |value: &Value| shorten(&value.to_string(), MAX_OUTPUT_LENGTH).into_owned();
            Some(format!("{place}the tool returned {}, the example says {}", shown(answered), shown(wanted)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_must_contain_everything_in_the_example() {
        let check = |wanted: Value, answered: Value, expect: Option<&str>| {
            assert_eq!(first_difference("", &wanted, &answered).as_deref(), expect, "{wanted}");
        };
        check(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 2, "more": 3}], "more": 4}), None);
        check(json!({}), json!({"a": 1}), None);
        check(json!({"a": 1}), json!({}), Some("at /a: the tool returned null, the example says 1"));
        check(json!([1]), json!([1, 2]), Some("the tool returned [1,2], the example says [1]"));
        check(
            json!({"a": [1, 2]}),
            json!({"a": [1, 3]}),
            Some("at /a/1: the tool returned 3, the example says 2"),
        );
        check(json!({"a": 3}), json!({"a": 3.0}), None);
        check(json!(3.5), json!(3), Some("the tool returned 3, the example says 3.5"));
        check(json!(1), json!("1"), Some("the tool returned \"1\", the example says 1"));
    }
}
