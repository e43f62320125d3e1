//! `sinew hook post-tool-use`: asks the daemon for advice on the result of a host tool, else reviews it in
//! this process with the same configuration. It blocks nothing, undoes nothing and writes nothing.

use execution::{Advice, HostReview};
use governance::Policy;
use serde_json::{Value, json};

use super::answer::Answer;
use super::event::Event;
use super::{home, in_a_line};
use crate::cli::HookArgs;
use crate::compose;
use crate::exit::Problem;
use crate::host_table::{self, CLAUDE_CODE, Scrutiny};
use crate::setting::Setting;

const METHOD: &str = "sinew/review_host";
const DONE: &str = "PostToolUse";
const FAILED: &str = "PostToolUseFailure";

pub(super) fn run(args: &HookArgs) -> Result<Answer, String> {
    let mut event = Event::from_stdin()?;
    let name = event.one_of(&[DONE, FAILED])?;
    let tool = event.text("tool_name")?;
    let review = match name {
        FAILED => HostReview::Failed { tool: tool.clone(), error: event.text("error")? },
        _ => HostReview::Answered(event.take("tool_response").unwrap_or_default()),
    };
    let setting = Setting::at(home(args)?, "/".into());
    let advice = by_daemon(&setting, &tool, &review).map_or_else(|| alone(&setting, &review), Ok);
    let advice = advice.map_err(|problem| in_a_line(&problem))?;
    Ok(advice.map_or(Answer::NoDecision, |text| Answer::Context(name, text)))
}

/// Asks the daemon. Returns `None` if no daemon answers or the request is too long for it; the review in this
/// process uses the same configuration.
fn by_daemon(setting: &Setting, tool: &str, review: &HostReview) -> Option<Advice> {
    let params = || {
        let (key, value) = match review {
            HostReview::Answered(answer) => ("tool_response", answer.clone()),
            HostReview::Failed { error, .. } => ("error", json!(error)),
        };
        json!({"host": CLAUDE_CODE, "tool_name": tool, key: value})
    };
    let mut reply = setting.ask_agent_if_served(METHOD, params).ok()??;
    serde_json::from_value(reply.get_mut("advice").map(Value::take)?).ok()
}

fn alone(setting: &Setting, review: &HostReview) -> Result<Advice, Problem> {
    match review {
        HostReview::Failed { tool, error } => {
            let (folder, home) = (setting.home().config().join("hosts"), setting.home().user_home());
            let hosts = host_table::load_with(&folder, home, Scrutiny::AsNeeded)?;
            let host = hosts.iter().find(|host| host.name == CLAUDE_CODE);
            Ok(host.and_then(|host| host.right_shape(tool, error)))
        }
        HostReview::Answered(answer) => {
            let redactor = execution::redactor(&policy(setting)?).map_err(Problem::configuration)?;
            Ok(execution::secrets_in(&redactor, answer))
        }
    }
}

/// Loads the policy for its secret patterns only, so its rules are not checked against the tools.
fn policy(setting: &Setting) -> Result<Policy, Problem> {
    let around = compose::surroundings(setting);
    let policy = match compose::written_out(setting)? {
        Some(folder) => Policy::load(&folder, &around),
        None => Policy::embedded(&around),
    };
    policy.map_err(Problem::configuration)
}
