//! `sinew reload`: tells the daemon to read its configuration again. A change that loosens it is shown, and
//! applied only with `--accept`.

use serde_json::{Value, json};

use crate::cli::ReloadArgs;
use crate::command::pin;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, paint, say, tell, visible, visible_line};

pub(crate) fn run(args: &ReloadArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let mut report = setting.ask_control("control/reload", json!({}))?;
    if args.accept && result(&report) == Some("waiting") {
        // Accept by the digest of the shown candidate, so that an edit made in between is not accepted with
        // it.
        if !args.output.json {
            show_changes(&report)?;
        }
        let seen = json!({"accept": report.get("candidate")});
        report = pin::Source::of(args.pin).ask_control(&setting, "control/reload", seen)?;
        if !args.output.json && result(&report) == Some("applied") {
            say("applied")?;
            return Ok(Exit::Done);
        }
    }
    if args.output.json {
        say(render::versioned(report.clone()))?;
        return Ok(exit(&report));
    }
    show(&report)?;
    Ok(exit(&report))
}

/// Returns the result of the reload.
fn result(report: &Value) -> Option<&str> {
    report["result"].as_str()
}

fn exit(report: &Value) -> Exit {
    match result(report) {
        Some("applied" | "unchanged") => Exit::Done,
        Some("waiting") => Exit::Approval,
        _ => Exit::BadConfiguration,
    }
}

fn show(report: &Value) -> Result<(), Problem> {
    show_changes(report)?;
    match result(report) {
        Some("unchanged") => say("nothing has changed"),
        Some("applied") => say("applied"),
        Some("waiting") => {
            tell(paint(
                NOTE,
                "the change loosens the configuration and is not applied yet: run `sinew reload --accept` to apply it",
            ));
            Ok(())
        }
        _ => {
            tell(format!(
                "{} {}",
                paint(BAD, "rejected:"),
                visible(report["error"].as_str().unwrap_or_default())
            ));
            tell("the last valid configuration stays in effect");
            Ok(())
        }
    }
}

/// Prints one line per change: whether it tightens or loosens, and where it is.
pub(crate) fn show_changes(report: &Value) -> Result<(), Problem> {
    for change in report["changes"].as_array().into_iter().flatten() {
        let sign = match change["effect"].as_str() {
            Some("tightens") => paint(GOOD, "tightens"),
            Some("loosens") => paint(BAD, "loosens "),
            _ => paint(NOTE, "neutral "),
        };
        let file = change.pointer("/rule/file").and_then(Value::as_str);
        let place = match (file, change.pointer("/rule/line").and_then(Value::as_u64)) {
            (Some(file), Some(line)) => format!(" ({} line {line})", visible_line(file)),
            _ => String::new(),
        };
        say(format!("{sign} {}{place}", visible_line(change["what"].as_str().unwrap_or_default())))?;
    }
    Ok(())
}
