//! Examples that are run: those of tools that only look, here, at nothing but their arguments, where the rules of this home let
//! them without asking anybody. What the tool answers must have all that the example says it answers.

use std::sync::Arc;

use execution::{Asking, Request, ToolExecutionLayer};
use manifest::{Example, Manifest, ToolType};
use registry::ToolRegistry;
use serde_json::Value;
use tokio::runtime::Runtime;
use tool::{Category, FailureKind, ToolDefinition, ToolResult, shorten};

use super::How;
use crate::command::call;
use crate::compose;
use crate::exit::Problem;
use crate::setting::Setting;

/// As much of an answer as is shown.
const LONGEST: usize = 400;

/// Whether an example can be run: its tool is a program in walls that only looks, and it names no path, since what would lie there
/// nobody has written down. Servers are not started, and tools of tools not called.
pub(super) fn is_safe(manifest: &Manifest, definition: &ToolDefinition, example: &Example) -> bool {
    let paths = definition.path_arguments().iter().map(|argument| argument.key.as_str());
    let outward = definition.outward_arguments().iter().map(|argument| argument.key.as_str());
    example.output.is_some()
        && example.error.is_none()
        && matches!(manifest.kind(), ToolType::Cli | ToolType::Local)
        && *definition.category() == Category::READ_ONLY
        && !paths.chain(outward).any(|key| example.input.contains_key(key))
}

/// The examples to be run.
#[derive(Default)]
pub(super) struct Trial {
    calls: Vec<(usize, String, Example)>,
}

impl Trial {
    /// One more, by its place in the report.
    pub(super) fn add(&mut self, index: usize, tool: &str, example: &Example) {
        self.calls.push((index, tool.to_owned(), example.clone()));
    }

    /// Runs them, one after the other.
    pub(super) fn run(
        self,
        setting: &Setting,
        registry: ToolRegistry,
        runtime: &Runtime,
    ) -> Vec<(usize, How, Option<String>)> {
        if self.calls.is_empty() {
            return Vec::new();
        }
        let folder = tempfile::Builder::new().prefix("sinew-test-").tempdir();
        let folder = folder.map_err(|error| Problem::configuration(format!("no folder to try in: {error}")));
        let _guard = runtime.enter();
        let layer = folder.and_then(|folder| Ok((compose::trial(setting, registry, folder.path())?, folder)));
        let calls = self.calls.into_iter();
        match layer {
            Ok((layer, _folder)) => calls
                .map(|(index, tool, example)| {
                    let result = runtime.block_on(tried(&layer, setting, tool, &example));
                    let (how, broken) = judged(&result, &example);
                    (index, how, broken)
                })
                .collect(),
            Err(problem) => {
                calls.map(|(index, ..)| (index, How::NotRun(problem.message.clone()), None)).collect()
            }
        }
    }
}

async fn tried(
    layer: &Arc<ToolExecutionLayer>,
    setting: &Setting,
    tool: String,
    example: &Example,
) -> ToolResult {
    let request = call::request(setting, tool, Value::Object(example.input.clone()));
    layer.execute(Request { asking: Asking::Never, cwd: None, ..request }).await
}

/// Whether a tool was run, and what it made of an example then.
fn judged(result: &ToolResult, example: &Example) -> (How, Option<String>) {
    let error = result.error.clone().unwrap_or_default();
    if result.metadata.refusal.is_some() {
        return (How::NotRun(error), None);
    }
    match result.metadata.failure.as_ref().map(|failure| failure.kind) {
        // What it takes is not on this machine.
        Some(FailureKind::NotFound | FailureKind::Io) => (How::NotRun(error), None),
        Some(_) => (How::Run, Some(format!("the tool fails: {error}"))),
        None => {
            let wanted = example.output.as_ref().unwrap_or(&Value::Null);
            (How::Run, lacking("", wanted, &result.output))
        }
    }
}

/// The first that is said to be in an answer and is another there.
fn lacking(at: &str, wanted: &Value, answered: &Value) -> Option<String> {
    match (wanted, answered) {
        (Value::Object(wanted), Value::Object(answered)) => wanted.iter().find_map(|(key, wanted)| {
            lacking(&format!("{at}/{key}"), wanted, answered.get(key).unwrap_or(&Value::Null))
        }),
        (Value::Array(wanted), Value::Array(answered)) if wanted.len() == answered.len() => {
            let mut pairs = wanted.iter().zip(answered).enumerate();
            pairs.find_map(|(index, (wanted, answered))| lacking(&format!("{at}/{index}"), wanted, answered))
        }
        _ if wanted == answered => None,
        _ => {
            let place = if at.is_empty() { String::new() } else { format!("at {at}: ") };
            let shown = |value: &Value| shorten(&value.to_string(), LONGEST).into_owned();
            Some(format!("{place}the tool answers {}, the example says {}", shown(answered), shown(wanted)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_has_all_that_an_example_says() {
        let check = |wanted: Value, answered: Value, expect: Option<&str>| {
            assert_eq!(lacking("", &wanted, &answered).as_deref(), expect, "{wanted}");
        };
        check(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 2, "more": 3}], "more": 4}), None);
        check(json!({}), json!({"a": 1}), None);
        check(json!({"a": 1}), json!({}), Some("at /a: the tool answers null, the example says 1"));
        check(json!([1]), json!([1, 2]), Some("the tool answers [1,2], the example says [1]"));
        check(
            json!({"a": [1, 2]}),
            json!({"a": [1, 3]}),
            Some("at /a/1: the tool answers 3, the example says 2"),
        );
        check(json!(1), json!("1"), Some("the tool answers \"1\", the example says 1"));
    }
}
