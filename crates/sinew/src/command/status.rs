//! `sinew status` and `sinew wait`: show the status of the daemon, or wait until it answers. Neither starts one.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{JsonArgs, WaitArgs};
use crate::command_context::CommandContext;
use crate::compose::PROJECT_DENIED;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    ERROR_STYLE, WARNING_STYLE, escape_invisible, escape_invisible_line, paint, print_warning,
};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn run(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let status = context.request_running_daemon("control/status", json!({}))?;
    warn_of_version_skew(&status);
    render::reply(output, status, |status| show(status, &context.home().agent_socket()))
}

/// Waits until the daemon answers.
pub(crate) fn wait(args: &WaitArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while !context.is_daemon_ready() {
        if Instant::now() >= deadline {
            // One last request returns the specific error: no daemon, a foreign process, or one that is still
            // starting.
            context.request_running_daemon("control/status", json!({}))?;
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(ExitKind::Done)
}

fn show(status: &Value, agent_socket: &Path) -> Result<(), CommandError> {
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
    table.add_row(["mode", &mode_text(&text)]);
    table.add_row(["version", &text("/version")]);
    table.add_row(["uptime", &uptime_text(status["uptime_seconds"].as_u64().unwrap_or_default())]);
    table.add_row(["agent socket", &escape_invisible_line(&agent_socket.to_string_lossy())]);
    table.add_row(["calls", &calls]);
    table.add_row(["approvals", &approvals_text(&text)]);
    table.add_row(["tools", &text("/tools")]);
    table.add_row(["ledger", &ledger_text(&text)]);
    table.add_row(["workspaces", &folders]);
    if let Some(line) = descriptor_limit_text(status) {
        table.add_row(["limits", &line]);
    }
    if status["proposal"].is_object() {
        let (to, reason) = (text("/proposal/to"), escape_invisible_line(&text("/proposal/reason")));
        table.add_row(["proposal", &format!("{to}: {reason}\nrun `sinew mode set {to}` to confirm it")]);
    }
    if status["recording"].is_object() {
        let field = |name: &str| escape_invisible_line(&text(&format!("/recording/{name}")));
        let line = format!(
            "calls in {} until {}, {} permitted by it\nrun `sinew policy record --finish` to end it",
            field("workspace"),
            field("until"),
            field("calls")
        );
        table.add_row(["recording", &paint(WARNING_STYLE, line)]);
    }
    if let Some(lines) = suspended_text(status) {
        table.add_row(["suspended", &lines]);
    }
    let problems: Vec<&Value> = status["manifest_problems"].as_array().into_iter().flatten().collect();
    let (projects, manifests): (Vec<&Value>, Vec<&Value>) =
        problems.into_iter().partition(|problem| problem["code"] == PROJECT_DENIED);
    for (row, what, problems) in
        [("manifests", "not loaded", manifests), ("projects", "every call into them is denied", projects)]
    {
        if !problems.is_empty() {
            let lines: Vec<String> = problems.into_iter().map(render::manifest_problem).collect();
            let lines = escape_invisible(&lines.join("\n"));
            table.add_row([row, &paint(ERROR_STYLE, format!("{what}:\n{lines}"))]);
        }
    }
    if let Some(line) = reload_text(&text) {
        table.add_row(["reload", &line]);
    }
    render::print_table(table)
}

/// Describes a setting that the file descriptor limit reduces.
pub(super) fn descriptor_limit_text(status: &Value) -> Option<String> {
    let limit = |name: &str| status.get("limits")?.get(name)?.as_u64();
    let (setting, actual) = (limit("unreduced_max_connections")?, limit("max_connections")?);
    Some(format!(
        "limits.max_connections is {setting}, but only {actual} connections are accepted: the daemon may open too few \
         files; raise the hard limit (`ulimit -Hn`) for the process that starts it"
    ))
}

/// Returns the mode, the reason and time of the change that led to it, and the command that leaves it.
fn mode_text(text: &impl Fn(&str) -> String) -> String {
    let mut lines = render::format_mode(&text("/mode"));
    let (since, reason) = (text("/mode_cause/since"), text("/mode_cause/reason"));
    if let Ok(since) = since.parse::<jiff::Timestamp>() {
        lines += &format!("\nsince {}: {}", since.strftime("%F %T UTC"), escape_invisible_line(&reason));
    }
    match text("/mode_cause/leave_with").as_str() {
        "" => lines,
        command => lines + &format!("\nrun `{}` to leave it", escape_invisible_line(command)),
    }
}

/// Returns the suspended callers, with the reason of each and the command that ends the suspension.
fn suspended_text(status: &Value) -> Option<String> {
    let line = |suspended: &Value| {
        let (id, client) =
            (render::text_field(suspended, "id"), render::text_field(&suspended["caller"], "client"));
        let name = if client.is_empty() { id.clone() } else { format!("{id} ({client})") };
        let (left, reason) = (&suspended["seconds_left"], render::text_field(suspended, "reason"));
        let alarm = paint(ERROR_STYLE, format!("{name} for {left} s: it alone caused {reason}"));
        format!("{alarm}\nrun `sinew callers resume {id}` to let it call again")
    };
    let lines: Vec<String> = render::items(status, "suspended_callers").iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Formats the uptime in its two largest units.
fn uptime_text(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Returns the number of pending approvals and whether a PIN is set.
fn approvals_text(text: &impl Fn(&str) -> String) -> String {
    let pin = if text("/approvals/pin") == "true" { "with a PIN" } else { "without a PIN" };
    match text("/approvals/pending").as_str() {
        "0" => format!("none pending, {pin}"),
        pending => paint(WARNING_STYLE, format!("{pending} pending (`sinew approvals watch`), {pin}")),
    }
}

/// Returns the result of the last reload if the operator has to act on it.
fn reload_text(text: &impl Fn(&str) -> String) -> Option<String> {
    match text("/reload/result").as_str() {
        "waiting" => Some(
            "the changes that loosen it are not applied yet\nrun `sinew reload --accept` to review and apply them"
                .to_owned(),
        ),
        "rejected" => Some(format!(
            "rejected; the last valid configuration stays in effect\n{}",
            escape_invisible(&text("/reload/error"))
        )),
        _ => None,
    }
}

/// Returns the state of the ledger, the number of deferred records, and the reason if it accepts no records.
fn ledger_text(text: &impl Fn(&str) -> String) -> String {
    let mut line = format!("{}, {} records", text("/ledger/state"), text("/ledger/records"));
    if text("/ledger/deferred") != "0" {
        line += &format!(", {} deferred", text("/ledger/deferred"));
    }
    let removed = text("/ledger/removed_under_pressure");
    if !["", "0"].contains(&removed.as_str()) {
        let alarm = format!(
            "{removed} files with young records were removed because ledger.max_bytes was exceeded, last at {}",
            text("/ledger/last_removed_under_pressure")
        );
        line = line + "\n" + &paint(ERROR_STYLE, alarm);
    }
    if text("/ledger/reads_refused") == "true" {
        line = line
            + "\n"
            + &paint(ERROR_STYLE, "reads are refused: the rest of ledger.max_bytes is reserved for changes");
    }
    let reason = text("/ledger/reason");
    if reason.is_empty() { line } else { line + "\n" + &escape_invisible_line(&reason) }
}

fn warn_of_version_skew(status: &Value) {
    let (ours, theirs) = (env!("CARGO_PKG_VERSION"), status["version"].as_str().unwrap_or("unknown"));
    if ours != theirs {
        let warning =
            format!("the daemon runs version {theirs}, this is {ours}: restart it to use the new one");
        print_warning(warning);
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
            assert_eq!(uptime_text(seconds), expect, "{seconds}");
        }
    }
}
