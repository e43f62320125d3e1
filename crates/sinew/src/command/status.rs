//! `sinew status` and `sinew wait`: show the status of the daemon, or wait until it answers. Neither starts one.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{JsonArgs, WaitArgs};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, NOTE, paint, say, tell, visible, visible_line};

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(crate) fn run(output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let status = setting.ask_running("control/status", json!({}))?;
    warn_of_skew(&status);
    render::reply(output, status, |status| show(status, &setting.home().agent_socket()))
}

/// Waits until the daemon answers.
pub(crate) fn wait(args: &WaitArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while !setting.daemon_answers() {
        if Instant::now() >= deadline {
            // One last request returns the specific error: no daemon, a foreign process, or one that is still
            // starting.
            setting.ask_running("control/status", json!({}))?;
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(Exit::Done)
}

fn show(status: &Value, agent_socket: &Path) -> Result<(), Problem> {
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
    table.add_row(["uptime", &up(status["uptime_seconds"].as_u64().unwrap_or_default())]);
    table.add_row(["agent socket", &visible_line(&agent_socket.to_string_lossy())]);
    table.add_row(["calls", &calls]);
    table.add_row(["approvals", &approvals(&text)]);
    table.add_row(["tools", &text("/tools")]);
    table.add_row(["ledger", &ledger(&text)]);
    table.add_row(["workspaces", &folders]);
    if status["proposal"].is_object() {
        let (to, reason) = (text("/proposal/to"), visible_line(&text("/proposal/reason")));
        table.add_row(["proposal", &format!("{to}: {reason}\nrun `sinew mode set {to}` to confirm it")]);
    }
    if let Some(line) = reload(&text) {
        table.add_row(["reload", &line]);
    }
    say(table)
}

/// Formats the uptime in its two largest units.
fn up(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Returns the number of pending approvals and whether a PIN is set.
fn approvals(text: &impl Fn(&str) -> String) -> String {
    let pin = if text("/approvals/pin") == "true" { "with a PIN" } else { "without a PIN" };
    match text("/approvals/pending").as_str() {
        "0" => format!("none pending, {pin}"),
        pending => paint(NOTE, format!("{pending} pending (`sinew approvals watch`), {pin}")),
    }
}

/// Returns the result of the last reload if the operator has to act on it.
fn reload(text: &impl Fn(&str) -> String) -> Option<String> {
    match text("/reload/result").as_str() {
        "waiting" => {
            Some("not applied yet: it loosens the configuration\nrun `sinew reload --accept` to review and apply it".to_owned())
        }
        "rejected" => {
            Some(format!("rejected; the last valid configuration stays in effect\n{}", visible(&text("/reload/error"))))
        }
        _ => None,
    }
}

/// Returns the state of the ledger, the number of deferred records, and the reason if it takes no records.
fn ledger(text: &impl Fn(&str) -> String) -> String {
    let mut line = format!("{}, {} records", text("/ledger/state"), text("/ledger/records"));
    if text("/ledger/owed") != "0" {
        line += &format!(", {} deferred", text("/ledger/owed"));
    }
    let removed = text("/ledger/removed_under_pressure");
    if !["", "0"].contains(&removed.as_str()) {
        let alarm = format!(
            "{removed} files with young records were removed because ledger.max_bytes was exceeded, last at {}",
            text("/ledger/last_removed_under_pressure")
        );
        line = line + "\n" + &paint(BAD, alarm);
    }
    if text("/ledger/reads_refused") == "true" {
        line = line
            + "\n"
            + &paint(BAD, "reads are refused: the rest of ledger.max_bytes is reserved for changes");
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
    fn long_uptime_is_shown_in_days() {
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
