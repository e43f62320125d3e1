//! `sinew hook post-tool-use`: requests advice from the daemon on the result of a host tool, else reviews it
//! in this process with the same configuration. It blocks nothing, undoes nothing and writes nothing.

use execution::host::{Advice, HostCallOutcome};
use governance::Policy;
use serde_json::{Value, json};

use super::host_event::HostEvent;
use super::host_reply::HostReply;
use super::{home, to_reason};
use crate::cli::{HookArgs, HostName};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;
use crate::host_table::{self, TableCheckLevel};

const METHOD: &str = "sinew/review_host";

pub(super) fn run(args: &HookArgs) -> Result<HostReply, String> {
    let host = args.host;
    let mut event = HostEvent::from_stdin(host)?;
    let failure = host.event_after_failure();
    let expected: Vec<&'static str> =
        failure.iter().map(|(name, _)| *name).chain([host.event_after()]).collect();
    let name = event.expect_name(&expected)?;
    let tool = event.required_text("tool_name")?;
    let review = match failure.filter(|(failed, _)| *failed == name) {
        Some((_, field)) => {
            HostCallOutcome::Failed { tool: tool.clone(), error: event.required_text(field)? }
        }
        None => {
            let answer = event.take_field(host.result_field()).unwrap_or_default();
            HostCallOutcome::Succeeded { tool: tool.clone(), answer }
        }
    };
    let context = CommandContext::new(home(args)?, "/".into());
    let advice = review_in_daemon(&context, (host, &tool), &review)
        .map_or_else(|| review_in_process(&context, host, &review), Ok);
    let advice = advice.map_err(|problem| to_reason(&problem))?;
    Ok(advice.map_or(HostReply::NoDecision, |text| HostReply::Context(name, text)))
}

/// Asks the daemon. Returns `None` if no daemon answers or the request is too long for it; the review in this
/// process uses the same configuration.
fn review_in_daemon(
    context: &CommandContext,
    (host, tool): (HostName, &str),
    review: &HostCallOutcome,
) -> Option<Advice> {
    let params = || {
        let (key, value) = match review {
            HostCallOutcome::Succeeded { answer, .. } => ("tool_response", answer.clone()),
            HostCallOutcome::Failed { error, .. } => ("error", json!(error)),
        };
        json!({"host": host.as_str(), "tool_name": tool, key: value})
    };
    let mut reply = context.try_request_agent(METHOD, params).ok()??;
    serde_json::from_value(reply.get_mut("advice").map(Value::take)?).ok()
}

fn review_in_process(
    context: &CommandContext,
    host: HostName,
    review: &HostCallOutcome,
) -> Result<Advice, CommandError> {
    match review {
        HostCallOutcome::Failed { tool, error } => example_advice(context, (host, tool), error),
        HostCallOutcome::Succeeded { tool, answer } => {
            let error = execution::host::reported_error(answer);
            let nudge = error.map_or(Ok(None), |error| example_advice(context, (host, tool), &error))?;
            let redactor =
                execution::redactor(&load_policy(context)?).map_err(CommandError::configuration)?;
            Ok(execution::host::joined(nudge, execution::host::secrets_advice(&redactor, answer)))
        }
    }
}

/// Returns an example of a valid call if the error blames the arguments.
fn example_advice(
    context: &CommandContext,
    (name, tool): (HostName, &str),
    error: &str,
) -> Result<Advice, CommandError> {
    let (folder, home) = (context.home().config_dir().join("hosts"), context.home().user_home());
    let hosts = host_table::load_with(&folder, home, TableCheckLevel::Lazy)?;
    let host = hosts.iter().find(|host| host.name == name.as_str());
    let curated = compose::curated_map(context)?;
    Ok(host.and_then(|host| host.example_advice(&curated, tool, error)))
}

/// Loads the policy for its secret patterns only, so its rules are not checked against the tools.
fn load_policy(context: &CommandContext) -> Result<Policy, CommandError> {
    compose::read_policy(context)?.map_err(CommandError::configuration)
}
