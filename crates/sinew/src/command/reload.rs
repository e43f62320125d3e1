//! `sinew reload`: makes the daemon read its configuration again. A change that loosens it is shown, and
//! applied with `--accept` or after a confirmation on the terminal. The parts that tighten are in effect by
//! then.

use serde_json::{Value, json};

use crate::cli::ReloadArgs;
use crate::command::pin;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    ERROR_STYLE, HEADING_STYLE, LiveLine, SUCCESS_STYLE, WARNING_STYLE, confirm, escape_invisible,
    escape_invisible_line, is_interactive, paint, print_message, print_result_line, print_warning,
};

pub(crate) fn run(args: &ReloadArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let line = LiveLine::start("reading the configuration");
    let report = context.request_control("control/reload", json!({}))?;
    drop(line);
    let is_waiting = result_of(&report) == Some("waiting");
    if args.output.json {
        let report = if args.accept && is_waiting { accept(&context, args, &report)? } else { report };
        render::print_json(report.clone())?;
        return Ok(exit_of(&report));
    }
    show_changes(&report)?;
    if is_waiting && (args.accept || (is_interactive() && confirm("apply the waiting changes?"))) {
        let accepted = accept(&context, args, &report)?;
        // The files may have changed since they were shown: then there is a new list to review.
        if result_of(&accepted) == Some("waiting") {
            show_changes(&accepted)?;
        }
        show_result(&accepted)?;
        return Ok(exit_of(&accepted));
    }
    show_result(&report)?;
    Ok(exit_of(&report))
}

/// Accepts by the digest of the shown candidate, so that an edit made in between is not accepted with it.
fn accept(context: &CommandContext, args: &ReloadArgs, shown: &Value) -> Result<Value, CommandError> {
    let seen = json!({"accept": shown.get("candidate")});
    pin::PinSource::from_args(args.pin).request_control(context, "control/reload", seen)
}

/// Prints one warning per manifest or tool that could not be loaded.
fn show_problems(report: &Value) {
    for problem in report["problems"].as_array().into_iter().flatten() {
        print_warning(escape_invisible(&render::manifest_problem(problem)));
    }
}

/// Returns the reason for a rejection.
fn error_of(report: &Value) -> &str {
    report.get("error").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the result of the reload.
fn result_of(report: &Value) -> Option<&str> {
    report["result"].as_str()
}

fn exit_of(report: &Value) -> ExitKind {
    match result_of(report) {
        Some("applied" | "unchanged") => ExitKind::Done,
        Some("waiting") => ExitKind::Approval,
        _ => ExitKind::BadConfiguration,
    }
}

fn show_result(report: &Value) -> Result<(), CommandError> {
    match result_of(report) {
        Some("unchanged") => print_result_line("nothing has changed")?,
        Some("applied") => print_result_line("applied")?,
        Some("waiting") => {
            if !error_of(report).is_empty() {
                print_warning(escape_invisible(error_of(report)));
            }
            print_warning(
                "the changes that loosen the configuration are not applied yet: run `sinew reload --accept` to apply them",
            );
        }
        _ => {
            print_message(format!(
                "{} {}",
                paint(ERROR_STYLE, "rejected:"),
                escape_invisible(error_of(report))
            ));
            print_message("the last valid configuration stays in effect");
        }
    }
    show_problems(report);
    Ok(())
}

/// Prints one line per change: whether it tightens or loosens, and where it is. Changes that are in effect come
/// before those that wait for the operator.
fn show_changes(report: &Value) -> Result<(), CommandError> {
    let changes: Vec<&Value> = report["changes"].as_array().into_iter().flatten().collect();
    let (waiting, applied): (Vec<&Value>, Vec<&Value>) =
        changes.into_iter().partition(|change| change["waits"] == true);
    let is_mixed = !waiting.is_empty() && !applied.is_empty();
    if is_mixed {
        print_result_line(paint(HEADING_STYLE, "in effect now:"))?;
    }
    applied.into_iter().try_for_each(show_change)?;
    if !waiting.is_empty() {
        print_result_line(paint(HEADING_STYLE, "waits for you, and takes effect if you accept it:"))?;
    }
    waiting.into_iter().try_for_each(show_change)
}

fn show_change(change: &Value) -> Result<(), CommandError> {
    let sign = match change["effect"].as_str() {
        Some("tightens") => paint(SUCCESS_STYLE, "tightens"),
        Some("loosens") => paint(ERROR_STYLE, "loosens "),
        _ => paint(WARNING_STYLE, "neutral "),
    };
    let file = change.pointer("/rule/file").and_then(Value::as_str);
    let place = match (file, change.pointer("/rule/line").and_then(Value::as_u64)) {
        (Some(file), Some(line)) => format!(" ({} line {line})", escape_invisible_line(file)),
        _ => String::new(),
    };
    let text = escape_invisible_line(change["description"].as_str().unwrap_or_default());
    print_result_line(format!("{sign} {text}{place}"))
}

/// State of an edit after the daemon has read the files again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditState {
    /// No daemon runs, so the next one reads the files.
    NoDaemon,
    /// The daemon applies the whole edit.
    Applied,
    /// A part of the files waits for the operator, or could not be applied.
    NotApplied,
}

/// Makes a running daemon read a file that a command has edited, and shows what is in effect and what waits. On a
/// terminal, the operator can accept what waits.
pub(crate) fn show_edit(context: &CommandContext) -> Result<EditState, CommandError> {
    if !context.is_daemon_ready() {
        return Ok(EditState::NoDaemon);
    }
    let mut report = context.request_control("control/reload", json!({}))?;
    show_changes(&report)?;
    if result_of(&report) == Some("waiting") && is_interactive() && confirm("apply the waiting changes?") {
        let seen = json!({"accept": report.get("candidate")});
        report = pin::PinSource::Terminal.request_control(context, "control/reload", seen)?;
    }
    match result_of(&report) {
        // The daemon may have read the file by itself in the meantime.
        Some("unchanged" | "applied") => {
            print_result_line("the running daemon has applied the change")?;
            Ok(EditState::Applied)
        }
        _ => show_result(&report).map(|()| EditState::NotApplied),
    }
}

/// State of one change after the daemon has read the files again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChangeState {
    /// No daemon runs, so the next one reads the files.
    NoDaemon,
    /// The daemon applies the change.
    InEffect,
    /// The daemon could not apply the change, for this reason.
    Rejected(String),
}

/// Makes a running daemon read the files, and returns the state of a change that tightens.
pub(crate) fn apply_tightening(context: &CommandContext) -> Result<ChangeState, CommandError> {
    if !context.is_daemon_ready() {
        return Ok(ChangeState::NoDaemon);
    }
    context.request_control("control/reload", json!({})).map(|report| tightening_state(&report))
}

/// Returns the state of a change that tightens. While a loosening waits, the tightening beside it can fail to apply;
/// the report then has an error.
fn tightening_state(report: &Value) -> ChangeState {
    match report.get("error").and_then(Value::as_str) {
        Some(error) => ChangeState::Rejected(error.to_owned()),
        None => ChangeState::InEffect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tightening_beside_a_waiting_change_has_no_effect() {
        let check =
            |report: Value, expect: ChangeState| assert_eq!(tightening_state(&report), expect, "{report}");
        let failed = |error: &str| ChangeState::Rejected(error.to_owned());
        check(json!({"result": "waiting"}), ChangeState::InEffect);
        check(json!({"result": "applied"}), ChangeState::InEffect);
        check(
            json!({"result": "waiting", "error": "the part that tightens could not be applied"}),
            failed("the part that tightens could not be applied"),
        );
        check(json!({"result": "rejected", "error": "tools.yaml:1"}), failed("tools.yaml:1"));
    }
}
