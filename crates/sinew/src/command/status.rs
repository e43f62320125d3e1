//! `sinew status`: asks the daemon how it is. Never starts one.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::JsonArgs;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, say, tell, visible, visible_line};

pub(crate) fn run(output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let status = setting.ask_running("control/status", json!({}))?;
    warn_of_skew(&status);
    if output.json {
        say(render::versioned(status))?;
    } else {
        show(&status, &setting.home().agent_socket())?;
    }
    Ok(Exit::Done)
}

fn show(status: &Value, door: &Path) -> Result<(), Problem> {
    let text = |pointer: &str| match status.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let calls = ["running", "done", "failed", "refused"];
    let calls = calls.map(|word| format!("{} {word}", text(&format!("/calls/{word}")))).join(", ");
    let folders: Vec<&str> =
        status["workspaces"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let folders = if folders.is_empty() {
        "none; add one with `sinew workspace add DIR`".into()
    } else {
        folders.join("\n")
    };
    let mut table = render::plain_table();
    table.add_row(["mode", &render::mode(&text("/mode"))]);
    table.add_row(["version", &text("/version")]);
    table.add_row(["up", &up(status["uptime_seconds"].as_u64().unwrap_or_default())]);
    table.add_row(["agents' door", &visible_line(&door.to_string_lossy())]);
    table.add_row(["calls", &calls]);
    table.add_row(["approvals", &approvals(&text)]);
    table.add_row(["tools", &text("/tools")]);
    table.add_row(["ledger", &ledger(&text)]);
    table.add_row(["workspaces", &folders]);
    if status["proposal"].is_object() {
        let (to, reason) = (text("/proposal/to"), visible_line(&text("/proposal/reason")));
        table.add_row(["proposal", &format!("{to}: {reason}\n`sinew mode set {to}` confirms it")]);
    }
    if let Some(line) = reload(&text) {
        table.add_row(["reload", &line]);
    }
    say(table)
}

/// How long it has been up, in the two largest units.
fn up(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Who waits for the human.
fn approvals(text: &impl Fn(&str) -> String) -> String {
    let pin = if text("/approvals/pin") == "true" { "with a PIN" } else { "without a PIN" };
    match text("/approvals/pending").as_str() {
        "0" => format!("nothing waits for you, {pin}"),
        pending => paint(NOTE, format!("{pending} wait for you (`sinew approvals watch`), {pin}")),
    }
}

/// What became of the last change of the configuration, where somebody has to do something about it.
fn reload(text: &impl Fn(&str) -> String) -> Option<String> {
    match text("/reload/result").as_str() {
        "waiting" => {
            Some("waits: it loosens something\n`sinew reload --accept` shows and takes it".to_owned())
        }
        "rejected" => {
            Some(format!("rejected; the last good configuration holds\n{}", visible(&text("/reload/error"))))
        }
        _ => None,
    }
}

/// Its state; where it takes no records, why, and what waits for it.
fn ledger(text: &impl Fn(&str) -> String) -> String {
    let mut line = format!("{}, {} records", text("/ledger/state"), text("/ledger/records"));
    if text("/ledger/owed") != "0" {
        line += &format!(", {} owed", text("/ledger/owed"));
    }
    let reason = text("/ledger/reason");
    if reason.is_empty() { line } else { line + "\n" + &visible_line(&reason) }
}

fn warn_of_skew(status: &Value) {
    let (ours, theirs) = (env!("CARGO_PKG_VERSION"), status["version"].as_str().unwrap_or("unknown"));
    if ours != theirs {
        let warning =
            format!("the daemon runs version {theirs}, this is {ours}: restart it to use the new one");
        tell(paint(NOTE, warning));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_life_is_told_in_days() {
        for (seconds, expect) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (3_661, "1 h 1 min"),
            (86_399, "23 h 59 min"),
            (90 * 86_400 + 7_200, "90 d 2 h"),
        ] {
            assert_eq!(up(seconds), expect, "{seconds}");
        }
    }
}
