//! `sinew explain`: explains how a call would be decided, by which rules, and what would have to change. The
//! daemon judges if one runs, else this process does, through the same pipeline. The request goes to the
//! control socket, because the full explanation is meant for the operator.

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
    let typed_call = Spoken::new(args.words, args.json.as_deref())?;
    let (setting, wants_json) = (Setting::find()?, typed_call.wants_json);
    let explanation = match setting.reach_or_state()? {
        Reach::Daemon => through_daemon(&setting, typed_call, args.mode)?,
        Reach::Nobody(_state) => in_this_process(&setting, typed_call, args.mode)?,
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
    typed_call: Spoken,
    mode: Option<tool::Mode>,
) -> Result<Explanation, Problem> {
    let definitions = setting.definitions(&ToolFilter::default())?;
    let mut params = Arguments::new();
    params.insert("tool_name".to_owned(), json!(typed_call.tool));
    let definition = tools::find(&definitions, &typed_call.tool);
    params.insert("arguments".to_owned(), typed_call.arguments(definition)?);
    params.insert("cwd".to_owned(), json!(setting.folder()));
    params.extend(mode.map(|mode| ("mode".to_owned(), json!(mode))));
    let reply = setting.ask_control("control/explain", Value::Object(params))?;
    serde_json::from_value(reply)
        .map_err(|error| Problem::failed(format!("the daemon's answer cannot be read: {error}")))
}

fn in_this_process(
    setting: &Setting,
    typed_call: Spoken,
    mode: Option<tool::Mode>,
) -> Result<Explanation, Problem> {
    let runtime = setting.runtime()?;
    let layer = compose::embedded_layer(setting)?;
    let definitions: Vec<ToolDefinition> =
        layer.tools(&ToolFilter::default()).iter().map(|definition| (**definition).clone()).collect();
    let tool = typed_call.tool.clone();
    let arguments = typed_call.arguments(tools::find(&definitions, &tool))?;
    let supposed = call::request(setting, tool, arguments);
    let explanation = runtime.block_on(layer.explain(supposed, mode, Hearer::Operator));
    // Do not wait for threads: one blocked in a dead network mount would keep the command from exiting.
    runtime.shutdown_background();
    Ok(explanation)
}

fn show(explanation: &Explanation) -> Result<(), Problem> {
    let (tool, mode) = (paint(STRONG, visible_line(&explanation.tool_name)), explanation.mode);
    say(match &explanation.finding {
        Finding::Permit => format!("{} {tool} would run in {mode} mode", paint(GOOD, "permit")),
        Finding::Ask { .. } => {
            format!("{} {tool} would need approval in {mode} mode", paint(NOTE, "ask"))
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
    // Several parts of one rule may have been evaluated; print the rule once.
    let mut printed: Vec<&tool::RuleRef> = Vec::new();
    for rule in &explanation.rules {
        if printed.contains(&rule) {
            continue;
        }
        printed.push(rule);
        let place = render::rule(rule);
        let line = if decided.contains(rule) { place } else { paint(QUIET, format!("{place}, passed")) };
        say(format!("  rule: {line}"))?;
    }
    match refusal.and_then(|refusal| refusal.hint.as_deref()) {
        Some(hint) => say(format!("  change: {}", visible(hint))),
        None => Ok(()),
    }
}
