//! `sinew reload`: tells the daemon to read its configuration again. A change that loosens it is shown, and
//! applied only with `--accept`.

use serde_json::{Value, json};

use crate::cli::ReloadArgs;
use crate::command::pin;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible, escape_invisible_line, paint, print_message,
    print_result_line, print_warning,
};

pub(crate) fn run(args: &ReloadArgs) -> Result<ExitKind, CommandError> {
    let setting = CommandContext::from_environment()?;
    let mut report = setting.request_control("control/reload", json!({}))?;
    if args.accept && result_of(&report) == Some("waiting") {
        // Accept by the digest of the shown candidate, so that an edit made in between is not accepted with
        // it.
        if !args.output.json {
            show_changes(&report)?;
        }
        let seen = json!({"accept": report.get("candidate")});
        report = pin::PinSource::from_args(args.pin).request_control(&setting, "control/reload", seen)?;
        if !args.output.json && result_of(&report) == Some("applied") {
            print_result_line("applied")?;
            show_problems(&report);
            return Ok(ExitKind::Done);
        }
    }
    if args.output.json {
        print_result_line(render::versioned_json(report.clone()))?;
        return Ok(exit_of(&report));
    }
    show(&report)?;
    show_problems(&report);
    Ok(exit_of(&report))
}

/// Prints one warning per manifest or tool that could not be loaded.
fn show_problems(report: &Value) {
    for problem in report["problems"].as_array().into_iter().flatten() {
        print_warning(escape_invisible(&render::manifest_problem(problem)));
    }
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

fn show(report: &Value) -> Result<(), CommandError> {
    show_changes(report)?;
    match result_of(report) {
        Some("unchanged") => print_result_line("nothing has changed"),
        Some("applied") => print_result_line("applied"),
        Some("waiting") => {
            print_warning(
                "the change loosens the configuration and is not applied yet: run `sinew reload --accept` to apply it",
            );
            Ok(())
        }
        _ => {
            print_message(format!(
                "{} {}",
                paint(ERROR_STYLE, "rejected:"),
                escape_invisible(report["error"].as_str().unwrap_or_default())
            ));
            print_message("the last valid configuration stays in effect");
            Ok(())
        }
    }
}

/// Prints one line per change: whether it tightens or loosens, and where it is.
pub(crate) fn show_changes(report: &Value) -> Result<(), CommandError> {
    for change in report["changes"].as_array().into_iter().flatten() {
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
        print_result_line(format!(
            "{sign} {}{place}",
            escape_invisible_line(change["description"].as_str().unwrap_or_default())
        ))?;
    }
    Ok(())
}
