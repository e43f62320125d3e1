//! After a tool of the host was used: a word of advice for the model, where there is one. Nothing is blocked or undone.

use std::collections::BTreeSet;

use execution::{Host, HostTool};
use serde_json::Value;
use telemetry::redact::Redactor;
use tool::{Failure, FailureKind};

use super::answer::Answer;
use super::event::Event;
use super::{home, in_a_line};
use crate::cli::HookArgs;
use crate::compose::{self, Folders};
use crate::host_table::CLAUDE_CODE;
use crate::setting::Setting;

const DONE: &str = "PostToolUse";
const FAILED: &str = "PostToolUseFailure";

pub(super) fn run(args: &HookArgs) -> Result<Answer, String> {
    let mut event = Event::from_stdin()?;
    let name = event.one_of(&[DONE, FAILED])?;
    let setting = Setting::at(home(args)?, "/".into());
    let settings = setting.settings().map_err(|problem| in_a_line(&problem))?;
    let world =
        compose::world(&setting, &settings, Folders::Configured).map_err(|problem| in_a_line(&problem))?;
    let advice = match name {
        FAILED => {
            let (tool, error) = (event.text("tool_name")?, event.text("error")?);
            world
                .hosts
                .iter()
                .find(|host| host.name == CLAUDE_CODE)
                .and_then(|host| nudge(host, &tool, &error))
        }
        _ => {
            let redactor = execution::redactor(&world.policy).map_err(|error| error.to_string())?;
            warning(&redactor, &event.take("tool_response").unwrap_or_default())
        }
    };
    Ok(advice.map_or(Answer::NoDecision, |text| Answer::Context(name, text)))
}

/// How a malformed call would have been right.
fn nudge(host: &Host, tool: &str, error: &str) -> Option<String> {
    if !guardrail::blames_arguments(&Failure::new(FailureKind::Io, error)) {
        return None;
    }
    let HostTool::Judged(judged) = host.tool(tool)? else { return None };
    let example = judged.definition().example()?;
    Some(format!("Sinew: the call of {tool} was malformed. A call of the right shape: {example}"))
}

/// Which secrets a result holds. They are named, never repeated.
fn warning(redactor: &Redactor, response: &Value) -> Option<String> {
    let mut found = BTreeSet::new();
    for_each_text(response, &mut |text| found.extend(redactor.found(text).into_iter().map(str::to_owned)));
    if found.is_empty() {
        return None;
    }
    let names: Vec<String> = found.into_iter().collect();
    Some(format!(
        "Sinew: this result holds what looks like a secret ({}). Do not repeat it, write it to a file or send it \
         anywhere; name the file or variable that holds it instead.",
        names.join(", ")
    ))
}

fn for_each_text(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_text(item, each)),
        Value::Object(map) => map.values().for_each(|item| for_each_text(item, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
