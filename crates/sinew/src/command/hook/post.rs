//! After a tool of the host was used: a word of advice for the model, where there is one. Nothing is blocked or undone.

use std::collections::BTreeSet;

use execution::{Host, HostTool};
use governance::Policy;
use serde_json::Value;
use telemetry::redact::Redactor;
use tool::{Failure, FailureKind};

use super::answer::Answer;
use super::event::Event;
use super::{home, in_a_line};
use crate::cli::HookArgs;
use crate::compose;
use crate::host_table::{self, CLAUDE_CODE};
use crate::setting::Setting;

const DONE: &str = "PostToolUse";
const FAILED: &str = "PostToolUseFailure";

pub(super) fn run(args: &HookArgs) -> Result<Answer, String> {
    let mut event = Event::from_stdin()?;
    let name = event.one_of(&[DONE, FAILED])?;
    let setting = Setting::at(home(args)?, "/".into());
    let advice = match name {
        FAILED => advice_on_failure(&setting, &event),
        _ => advice_on_result(&setting, &event.take("tool_response").unwrap_or_default()),
    };
    Ok(advice?.map_or(Answer::NoDecision, |text| Answer::Context(name, text)))
}

fn advice_on_failure(setting: &Setting, event: &Event) -> Result<Option<String>, String> {
    let (tool, error) = (event.text("tool_name")?, event.text("error")?);
    let hosts = host_table::load(&setting.home().config().join("hosts"), setting.home().user_home());
    let hosts = hosts.map_err(|problem| in_a_line(&problem))?;
    let host = hosts.iter().find(|host| host.name == CLAUDE_CODE);
    Ok(host.and_then(|host| nudge(host, &tool, &error)))
}

/// The policy is read for its secrets alone; whether its rules fit the tools is for those who judge by them.
fn advice_on_result(setting: &Setting, response: &Value) -> Result<Option<String>, String> {
    let around = compose::surroundings(setting);
    let policy = match compose::written_out(setting).map_err(|problem| in_a_line(&problem))? {
        Some(folder) => Policy::load(&folder, &around),
        None => Policy::embedded(&around),
    };
    let redactor = execution::redactor(&policy.map_err(|error| error.to_string())?);
    Ok(warning(&redactor.map_err(|error| error.to_string())?, response))
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
