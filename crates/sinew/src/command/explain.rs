//! `sinew explain`: explains how a call would be decided, by which rules, and what would have to change. The
//! daemon judges if one runs, else this process does, through the same pipeline. The request goes to the
//! control socket, because the full explanation is meant for the operator.

use execution::{ExplainedVerdict, Explanation, ExplanationAudience, ToolFilter};
use serde_json::{Value, json};
use tool::{Arguments, ToolDefinition};

use crate::arguments::CallInput;
use crate::cli::{ExplainArgs, JsonArgs};
use crate::command::{call, ledger, tools};
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible,
    escape_invisible_line, paint, print_result_line,
};

/// Shortest prefix of a call id that is not taken for a tool.
const MIN_CALL_ID_LENGTH: usize = 8;

pub(crate) fn run(args: ExplainArgs) -> Result<ExitKind, CommandError> {
    if let ([word], None | Some(""), None) = (args.words.as_slice(), args.json.as_deref(), args.mode)
        && is_call_id(word)
    {
        // The arguments of a recorded call are not stored, but its decision and the rules that made it are.
        return ledger::show_call(word, JsonArgs { json: args.json.is_some() });
    }
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

/// Returns true for the id of a call, or enough of its first digits that it cannot be the name of a tool.
fn is_call_id(word: &str) -> bool {
    let is_hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    word.len() >= MIN_CALL_ID_LENGTH
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(is_hex)
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
            // The indentation is outside of the style, so that continuation lines are indented by it.
            false => format!("  {}", paint(DIM_STYLE, format!("passed: {place}"))),
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

#[cfg(test)]
mod tests {
    use super::is_call_id;

    #[test]
    fn call_id_is_told_from_a_tool() {
        for id in ["01a1f24b", "01a1f24b-e846", "01a1f24b-e846-732d-90cf-f1b35264263a"] {
            assert!(is_call_id(id), "{id}");
        }
        for tool in ["read_file", "deadbeef", "01a1f24", "decade-fade", "01a1f24b x", "01a1f24b@1"] {
            assert!(!is_call_id(tool), "{tool}");
        }
    }
}
