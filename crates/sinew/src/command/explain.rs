//! `sinew explain`: explains how a call would be decided, by which rules, and what would have to change. The
//! daemon judges if one runs, else this process does, through the same pipeline. The request goes to the
//! control socket, because the full explanation is meant for the operator.

use execution::{ExplainedVerdict, Explanation, ExplanationAudience, ToolFilter};
use serde_json::{Value, json};
use tool::{Arguments, ToolDefinition};

use crate::arguments::CallInput;
use crate::cli::ExplainArgs;
use crate::command::{call, tools};
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible,
    escape_invisible_line, paint, print_result_line,
};

pub(crate) fn run(args: ExplainArgs) -> Result<ExitKind, CommandError> {
    let typed_call = CallInput::new(args.words, args.json.as_deref())?;
    let (context, wants_json) = (CommandContext::from_environment()?, typed_call.wants_json);
    let explanation = match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => through_daemon(&context, typed_call, args.mode)?,
        CommandBackend::Local(_state) => in_this_process(&context, typed_call, args.mode)?,
    };
    if wants_json {
        render::print_json(serde_json::to_value(&explanation).unwrap_or_default())?;
    } else {
        show(&explanation)?;
    }
    Ok(match explanation.finding {
        ExplainedVerdict::Permit => ExitKind::Done,
        ExplainedVerdict::Ask { .. } => ExitKind::Approval,
        ExplainedVerdict::Deny { .. } => ExitKind::Refused,
    })
}

fn through_daemon(
    context: &CommandContext,
    typed_call: CallInput,
    mode: Option<tool::Mode>,
) -> Result<Explanation, CommandError> {
    let definitions = context.definitions(&ToolFilter::default())?;
    let mut params = Arguments::new();
    params.insert("tool_name".to_owned(), json!(typed_call.tool));
    let definition = tools::find_tool(&definitions, &typed_call.tool);
    params.insert("arguments".to_owned(), typed_call.into_arguments(definition)?);
    params.insert("cwd".to_owned(), json!(context.folder()));
    params.extend(mode.map(|mode| ("mode".to_owned(), json!(mode))));
    let reply = context.request_control("control/explain", Value::Object(params))?;
    serde_json::from_value(reply)
        .map_err(|error| CommandError::failed(format!("the daemon's answer cannot be read: {error}")))
}

fn in_this_process(
    context: &CommandContext,
    typed_call: CallInput,
    mode: Option<tool::Mode>,
) -> Result<Explanation, CommandError> {
    let runtime = context.runtime()?;
    let layer = compose::embedded_layer(context)?;
    let definitions: Vec<ToolDefinition> =
        layer.tools(&ToolFilter::default()).iter().map(|definition| (**definition).clone()).collect();
    let tool = typed_call.tool.clone();
    let arguments = typed_call.into_arguments(tools::find_tool(&definitions, &tool))?;
    let supposed = call::embedded_request(context, tool, arguments);
    let explanation = runtime.block_on(layer.explain(supposed, mode, ExplanationAudience::Operator));
    // Do not wait for threads: one blocked in a dead network mount would keep the command from exiting.
    runtime.shutdown_background();
    Ok(explanation)
}

fn show(explanation: &Explanation) -> Result<(), CommandError> {
    let (tool, mode) =
        (paint(HEADING_STYLE, escape_invisible_line(&explanation.tool_name)), explanation.mode);
    print_result_line(match &explanation.finding {
        ExplainedVerdict::Permit => {
            format!("{} {tool} would run in {mode} mode", paint(SUCCESS_STYLE, "permit"))
        }
        ExplainedVerdict::Ask { .. } => {
            format!("{} {tool} would need approval in {mode} mode", paint(WARNING_STYLE, "ask"))
        }
        ExplainedVerdict::Deny { .. } => {
            format!("{} {tool} would be refused in {mode} mode", paint(ERROR_STYLE, "deny"))
        }
    })?;
    let refusal = explanation.finding.refusal();
    if let Some(refusal) = refusal.filter(|_| matches!(explanation.finding, ExplainedVerdict::Deny { .. })) {
        print_result_line(format!("  why: {} ({})", escape_invisible(&refusal.reason), refusal.code))?;
        for problem in &refusal.problems {
            print_result_line(format!(
                "       {} {}",
                escape_invisible_line(&problem.pointer),
                escape_invisible_line(&problem.message)
            ))?;
        }
    }
    let decided: &[tool::RuleRef] = match &explanation.finding {
        ExplainedVerdict::Ask { asked_by, .. } => asked_by,
        ExplainedVerdict::Deny { refusal } => refusal.rule.as_slice(),
        ExplainedVerdict::Permit => &explanation.rules,
    };
    // Several parts of one rule may have been evaluated; print the rule once.
    let mut printed: Vec<&tool::RuleRef> = Vec::new();
    let (deciding, passed): (Vec<_>, Vec<_>) =
        decided.iter().chain(&explanation.rules).partition(|rule| decided.contains(rule));
    for rule in deciding.into_iter().chain(passed) {
        if printed.contains(&rule) {
            continue;
        }
        printed.push(rule);
        let place = render::format_rule(rule);
        print_result_line(match decided.contains(rule) {
            true => format!("  rule: {place}"),
            false => paint(DIM_STYLE, format!("  passed: {place}")),
        })?;
    }
    for note in &explanation.notes {
        print_result_line(format!("  note: {}", escape_invisible_line(note)))?;
    }
    match refusal.and_then(|refusal| refusal.hint.as_deref()) {
        Some(hint) => print_result_line(format!("  change: {}", escape_invisible(hint))),
        None => Ok(()),
    }
}
