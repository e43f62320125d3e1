//! `sinew explain`: what would become of a call, by which rules, and what would have to change. The daemon judges if
//! one runs, else this process, by the same road. It is a person who asks, so it is asked at the human's door.

use execution::{Explanation, Finding, Hearer, ToolFilter};
use serde_json::{Value, json};
use tool::{Arguments, ToolDefinition};

use crate::arguments::Spoken;
use crate::cli::ExplainArgs;
use crate::command::{call, tools};
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::{Reach, Setting};
use crate::terminal::{BAD, GOOD, NOTE, QUIET, STRONG, paint, say, visible, visible_line};

pub(crate) fn run(args: ExplainArgs) -> Result<Exit, Problem> {
    let spoken = Spoken::new(args.words, args.json.as_deref())?;
    let (setting, wants_json) = (Setting::find()?, spoken.wants_json);
    let explanation = match setting.reach_or_state()? {
        Reach::Daemon => through_daemon(&setting, spoken, args.mode)?,
        Reach::Nobody(_state) => in_this_process(&setting, spoken, args.mode)?,
    };
    if wants_json {
        say(render::versioned(serde_json::to_value(&explanation).unwrap_or_default()))?;
    } else {
        show(&explanation)?;
    }
    Ok(match explanation.finding {
        Finding::Permit => Exit::Done,
        Finding::Ask { .. } => Exit::Approval,
        Finding::Deny { .. } => Exit::Refused,
    })
}

fn through_daemon(
    setting: &Setting,
    spoken: Spoken,
    mode: Option<tool::Mode>,
) -> Result<Explanation, Problem> {
    let definitions = setting.definitions(&ToolFilter::default())?;
    let mut params = Arguments::new();
    params.insert("tool_name".to_owned(), json!(spoken.tool));
    let definition = tools::find(&definitions, &spoken.tool);
    params.insert("arguments".to_owned(), spoken.arguments(definition)?);
    params.insert("cwd".to_owned(), json!(setting.folder()));
    params.extend(mode.map(|mode| ("mode".to_owned(), json!(mode))));
    let reply = setting.ask_control("control/explain", Value::Object(params))?;
    serde_json::from_value(reply)
        .map_err(|error| Problem::new(Exit::Failed, format!("the daemon's answer cannot be read: {error}")))
}

fn in_this_process(
    setting: &Setting,
    spoken: Spoken,
    mode: Option<tool::Mode>,
) -> Result<Explanation, Problem> {
    let runtime = setting.runtime()?;
    let layer = compose::embedded_layer(setting)?;
    let definitions: Vec<ToolDefinition> =
        layer.tools(&ToolFilter::default()).iter().map(|definition| (**definition).clone()).collect();
    let tool = spoken.tool.clone();
    let arguments = spoken.arguments(tools::find(&definitions, &tool))?;
    let supposed = call::request(setting, tool, arguments);
    let explanation = runtime.block_on(layer.explain(supposed, mode, Hearer::Operator));
    // A thread stuck in a dead mount must not keep the command from ending.
    runtime.shutdown_background();
    Ok(explanation)
}

fn show(explanation: &Explanation) -> Result<(), Problem> {
    let (tool, mode) = (paint(STRONG, visible_line(&explanation.tool_name)), explanation.mode);
    say(match &explanation.finding {
        Finding::Permit => format!("{} {tool} would run in {mode} mode", paint(GOOD, "permit")),
        Finding::Ask { .. } => {
            format!("{} a human is asked before {tool} runs in {mode} mode", paint(NOTE, "ask"))
        }
        Finding::Deny { .. } => format!("{} {tool} would be refused in {mode} mode", paint(BAD, "deny")),
    })?;
    let refusal = explanation.finding.refusal();
    if let Some(refusal) = refusal.filter(|_| matches!(explanation.finding, Finding::Deny { .. })) {
        say(format!("  why: {} ({})", visible(&refusal.reason), refusal.code))?;
        for problem in &refusal.problems {
            say(format!("       {} {}", visible_line(&problem.pointer), visible_line(&problem.message)))?;
        }
    }
    let decided: &[tool::RuleRef] = match &explanation.finding {
        Finding::Ask { asked_by, .. } => asked_by,
        Finding::Deny { refusal } => refusal.rule.as_slice(),
        Finding::Permit => &explanation.rules,
    };
    // Two parts of one rule may have been looked at; it is told once.
    let mut told: Vec<&tool::RuleRef> = Vec::new();
    for rule in &explanation.rules {
        if told.contains(&rule) {
            continue;
        }
        told.push(rule);
        let place = render::rule(rule);
        let line = if decided.contains(rule) { place } else { paint(QUIET, format!("{place}, passed")) };
        say(format!("  rule: {line}"))?;
    }
    match refusal.and_then(|refusal| refusal.hint.as_deref()) {
        Some(hint) => say(format!("  change: {}", visible(hint))),
        None => Ok(()),
    }
}
