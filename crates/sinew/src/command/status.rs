//! `sinew status` and `sinew wait`: show the status of the daemon, or wait until it answers. Neither starts one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{JsonArgs, WaitArgs};
use crate::command_context::CommandContext;
use crate::compose::PROJECT_DENIED;
use crate::exit::{CommandError, ExitKind};
use crate::render::{self, text_field};
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, WARNING_STYLE, escape_invisible, escape_invisible_line, paint, print_warning,
};
use crate::units;

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of clients and of pending approvals that are named.
const MAX_CLIENTS: usize = 8;
const MAX_PENDING: usize = 3;

pub(crate) fn run(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let status = context.request_running_daemon("control/status", json!({}))?;
    warn_of_version_skew(&status);
    let has_pending = status.pointer("/approvals/pending").and_then(Value::as_u64).unwrap_or(0) > 0;
    // A list that cannot be read leaves the number, which the status has.
    let listed =
        (has_pending && !output.json).then(|| context.request_control("control/approvals.list", json!({})));
    let listed = listed.and_then(Result::ok).unwrap_or_default();
    let pending: Vec<Value> =
        render::items(&listed, "approvals").iter().filter(|one| one["state"] == "pending").cloned().collect();
    render::reply(output, status, |status| show(status, &pending))
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

fn show(status: &Value, pending: &[Value]) -> Result<(), CommandError> {
    let text = |pointer: &str| match status.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let calls = ["running", "done", "failed", "refused"];
    let calls = calls.map(|word| format!("{} {word}", text(&format!("/calls/{word}")))).join(", ");
    let mut table = Table::default();
    table.set_header([Column::whole(""), Column::from("")]);
    let mut row = |name: &str, text: Option<String>| {
        if let Some(text) = text {
            table.add_row([paint(DIM_STYLE, name), text]);
        }
    };
    row("mode", Some(mode_text(&text)));
    row("proposal", proposal_text(status, &text));
    row("approvals", Some(approvals_text(&text, pending)));
    row("calls", Some(calls));
    row("clients", Some(clients_text(status)));
    row("workspaces", Some(workspaces_text(status)));
    row("tools", Some(text("/tools")));
    row("ledger", Some(ledger_text(&text)));
    row("recording", recording_text(status, &text));
    row("suspended", suspended_text(status));
    let problems = render::items(status, "manifest_problems").iter();
    let (projects, manifests): (Vec<&Value>, Vec<&Value>) =
        problems.partition(|problem| problem["code"] == PROJECT_DENIED);
    row("manifests", problems_text("not loaded", &manifests, "sinew manifest check"));
    row("projects", problems_text("every call into them is denied", &projects, "sinew check"));
    row("reload", reload_text(&text));
    row("restart", restart_text(status));
    row("limits", descriptor_limit_text(status));
    let uptime = units::span(status["uptime_seconds"].as_u64().unwrap_or_default());
    row("daemon", Some(format!("version {}, pid {}, up {uptime}", text("/version"), text("/pid"))));
    row("socket", Some(escape_invisible_line(&text("/sockets/0"))));
    render::print_table(&table)
}

/// Returns the connected programs, one per line, without those that only serve this command.
fn clients_text(status: &Value) -> String {
    let clients = render::items(status, "clients");
    let line = |client: &Value| {
        let name = match text_field(client, "name") {
            name if name.is_empty() => "an unnamed program".to_owned(),
            name => name,
        };
        let pid = client["pid"].as_u64().map(|pid| format!(", pid {pid}")).unwrap_or_default();
        let session = match text_field(client, "session") {
            id if id.is_empty() => String::new(),
            id => format!(", session {id}"),
        };
        let since = units::local_time_text(client["since"].as_str().unwrap_or_default());
        format!("{name}{pid}{session}, since {since}")
    };
    let mut lines: Vec<String> = clients.iter().take(MAX_CLIENTS).map(line).collect();
    if clients.len() > MAX_CLIENTS {
        lines.push(format!("and {} more", clients.len() - MAX_CLIENTS));
    }
    if lines.is_empty() { "none connected".to_owned() } else { lines.join("\n") }
}

fn workspaces_text(status: &Value) -> String {
    let folders: Vec<String> = render::items(status, "workspaces")
        .iter()
        .filter_map(Value::as_str)
        .map(escape_invisible_line)
        .collect();
    match folders.is_empty() {
        true => "none; `sinew workspace add DIR` adds one".to_owned(),
        false => folders.join("\n"),
    }
}

fn proposal_text(status: &Value, text: &impl Fn(&str) -> String) -> Option<String> {
    status["proposal"].is_object().then(|| {
        let (to, reason) = (text("/proposal/to"), escape_invisible_line(&text("/proposal/reason")));
        format!("{}: {reason}\n`sinew mode set {to}` confirms it", render::format_mode(&to))
    })
}

fn recording_text(status: &Value, text: &impl Fn(&str) -> String) -> Option<String> {
    status["recording"].is_object().then(|| {
        let field = |name: &str| escape_invisible_line(&text(&format!("/recording/{name}")));
        let until = units::local_time_text(&text("/recording/until"));
        let line =
            format!("calls in {} until {until}, {} permitted by it", field("workspace"), field("calls"));
        paint(WARNING_STYLE, line) + "\n`sinew policy record --finish` ends it"
    })
}

/// Returns files that could not be loaded, and the command that explains them.
fn problems_text(subject: &str, problems: &[&Value], command: &str) -> Option<String> {
    let lines = problems.iter().map(|problem| escape_invisible_line(&render::manifest_problem(problem)));
    let lines: Vec<String> = lines.map(|line| paint(ERROR_STYLE, line)).collect();
    (!lines.is_empty())
        .then(|| format!("{subject}:\n{}\n`{command}` shows how to correct them", lines.join("\n")))
}

/// Returns the changed settings that take effect at the next start.
fn restart_text(status: &Value) -> Option<String> {
    let changes = status.pointer("/reload/changes").and_then(Value::as_array).into_iter().flatten();
    let lines: Vec<String> = changes
        .map(|change| text_field(change, "description"))
        .filter(|line| line.contains("at the next start"))
        .map(|line| paint(WARNING_STYLE, line))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
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
    if !since.is_empty() {
        let by = match text("/mode_cause/by").as_str() {
            "" => String::new(),
            by => format!(", by {}", escape_invisible_line(by)),
        };
        lines +=
            &format!("\nsince {}{by}: {}", units::local_time_text(&since), escape_invisible_line(&reason));
    }
    match text("/mode_cause/leave_with").as_str() {
        "" => lines,
        command => lines + &format!("\n`{}` leaves it", escape_invisible_line(command)),
    }
}

/// Returns the suspended callers, with the reason of each and the command that ends the suspension.
fn suspended_text(status: &Value) -> Option<String> {
    let line = |suspended: &Value| {
        let (id, client) = (text_field(suspended, "id"), text_field(&suspended["caller"], "client"));
        let name = if client.is_empty() { id.clone() } else { format!("{id} ({client})") };
        let left = units::span(suspended["seconds_left"].as_u64().unwrap_or_default());
        let reason = text_field(suspended, "reason");
        let alarm = paint(ERROR_STYLE, format!("{name} for {left}: it alone caused {reason}"));
        format!("{alarm}\n`sinew callers resume {id}` lets it call again")
    };
    let lines: Vec<String> = render::items(status, "suspended_callers").iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns the pending approvals, and whether a PIN is set.
fn approvals_text(text: &impl Fn(&str) -> String, pending: &[Value]) -> String {
    let pin = if text("/approvals/pin") == "true" { "with a PIN" } else { "without a PIN" };
    let count = text("/approvals/pending");
    if count == "0" {
        return format!("none pending, {pin}");
    }
    let mut lines = vec![paint(WARNING_STYLE, format!("{count} pending")) + &format!(", {pin}")];
    lines.extend(pending.iter().take(MAX_PENDING).map(|approval| {
        let left = units::span(approval["seconds_left"].as_u64().unwrap_or_default());
        format!("{} ({left} left)", text_field(approval, "summary"))
    }));
    if pending.len() > MAX_PENDING {
        lines.push(format!("and {} more", pending.len() - MAX_PENDING));
    }
    lines.push("`sinew approvals watch` decides them".to_owned());
    lines.join("\n")
}

/// Returns the result of the last reload if the operator has to act on it.
fn reload_text(text: &impl Fn(&str) -> String) -> Option<String> {
    match text("/reload/result").as_str() {
        "waiting" => Some(
            paint(WARNING_STYLE, "changes that loosen the configuration wait for you")
                + "\n`sinew reload` shows them, `sinew reload --accept` applies them",
        ),
        "rejected" => Some(format!(
            "{}\n{}",
            paint(ERROR_STYLE, "rejected; the last valid configuration stays in effect"),
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
            units::local_time_text(&text("/ledger/last_removed_under_pressure"))
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
            format!("the daemon runs version {theirs}, this is {ours}: `sinew restart` runs the new one");
        print_warning(warning);
    }
}
