//! `sinew approvals`, `sinew approve` and `sinew deny`: show pending approval requests and send the
//! operator's decisions. The daemon holds the approval queue.

mod answer;
mod watch;

use execution::{CardLine, Listed, Tone, shown};
use serde_json::{Map, Value, json};
use tool::{json_kind, strict_json};

use crate::cli::{ApprovalsCommand, JsonArgs};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, QUIET, STRONG, paint, say, tell};

pub(crate) use answer::{approve, ask_here, deny, open_besides};

pub(crate) fn run(command: ApprovalsCommand) -> Result<Exit, Problem> {
    match command {
        ApprovalsCommand::List(output) => list(output),
        ApprovalsCommand::Show { id, output } => show(&id, output),
        ApprovalsCommand::Watch => watch::run(),
        ApprovalsCommand::Edit { id, arguments, pin, output } => answer::edit(&id, &arguments, pin, output),
        ApprovalsCommand::Grants(output) => grants(output),
        ApprovalsCommand::Revoke { ids, output } => answer::revoke(&ids, output),
    }
}

fn list(output: JsonArgs) -> Result<Exit, Problem> {
    let reply = Setting::find()?.ask_control("control/approvals.list", json!({}))?;
    render::reply(output, reply, |reply| show_list(render::items(reply, "approvals")))
}

fn show_list(approvals: &[Value]) -> Result<(), Problem> {
    if approvals.is_empty() {
        tell("no approvals are pending");
        return Ok(());
    }
    let mut table = render::plain_table();
    table.set_header(["APPROVAL", "STATE", "LEFT", "RISK", "CALLER", "WHAT IT WOULD DO"]);
    for approval in approvals {
        let left = approval["seconds_left"].as_u64().unwrap_or_default();
        table.add_row([
            text(approval, "id"),
            text(approval, "state"),
            format!("{left} s"),
            text(approval, "risk"),
            text(approval, "caller"),
            cut(&text(approval, "summary")),
        ]);
    }
    say(table)?;
    tell(paint(
        QUIET,
        "`sinew approvals show ID` shows the whole request; `sinew approvals watch` decides with one key",
    ));
    Ok(())
}

fn show(id: &str, output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let id = resolve(&setting, id)?;
    let reply = setting.ask_control("control/approvals.show", json!({"id": id}))?;
    render::reply(output, reply, |reply| {
        let listed = listed(reply.clone())?;
        let mut lines = heading(&listed).into_iter().chain(listed.card.lines());
        lines.try_for_each(|line| say(painted(&line)))
    })
}

fn grants(output: JsonArgs) -> Result<Exit, Problem> {
    let reply = Setting::find()?.ask_control("control/grants.list", json!({}))?;
    render::reply(output, reply, |reply| show_grants(render::items(reply, "grants")))
}

fn show_grants(grants: &[Value]) -> Result<(), Problem> {
    if grants.is_empty() {
        tell("no standing rules: every call that needs approval asks you");
    }
    for grant in grants {
        let left = grant["seconds_left"].as_u64().unwrap_or_default();
        say(paint(STRONG, format!("{} ({left} s left)", text(grant, "id"))))?;
        for line in render::items(grant, "lines") {
            say(format!("  {}", shown(line.as_str().unwrap_or_default())))?;
        }
    }
    Ok(())
}

/// Returns the lines printed above an approval request.
fn heading(listed: &Listed) -> Vec<CardLine> {
    let waits = if listed.waiting { "the caller is waiting" } else { "the caller is not waiting" };
    let text = format!(
        "approval {}: {}, {} s left, {waits}",
        shown(&listed.card.id),
        shown(&listed.state),
        listed.seconds_left
    );
    vec![CardLine { tone: Tone::Quiet, text }]
}

/// Returns a line of an approval request in its colour. The text contains visible characters only, so every
/// escape sequence in the result comes from `paint`.
fn painted(line: &CardLine) -> String {
    match line.tone {
        Tone::Title => paint(STRONG, &line.text),
        Tone::Plain => line.text.clone(),
        Tone::Quiet => paint(QUIET, &line.text),
        Tone::Added => paint(GOOD, &line.text),
        Tone::Removed => paint(BAD, &line.text),
        Tone::Warning => paint(NOTE, &line.text),
    }
}

/// Returns the id of the only approval request with this prefix (at least 3 characters), else `id` itself.
fn resolve(setting: &Setting, id: &str) -> Result<String, Problem> {
    let reply = setting.ask_control("control/approvals.list", json!({}))?;
    let ids = render::items(&reply, "approvals").iter().filter_map(|one| one["id"].as_str());
    let begun: Vec<&str> = ids.filter(|known| id.len() >= 3 && known.starts_with(id)).collect();
    match begun.as_slice() {
        [one] => Ok((*one).to_owned()),
        // The daemon reports an unknown or already decided id better than this list can.
        [] => Ok(id.to_owned()),
        _ => Err(Problem::usage(format!("`{}` matches several approvals: type more of the id", shown(id)))),
    }
}

fn listed(reply: Value) -> Result<Listed, Problem> {
    serde_json::from_value(reply)
        .map_err(|error| Problem::failed(format!("the daemon's answer cannot be read: {error}")))
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().map(shown).unwrap_or_default()
}

/// Shortens a summary to one table line and appends the number of omitted characters.
fn cut(summary: &str) -> String {
    const LONGEST: usize = 100;
    let length = summary.chars().count();
    match length > LONGEST {
        true => format!("{} … {} more", summary.chars().take(LONGEST).collect::<String>(), length - LONGEST),
        false => summary.to_owned(),
    }
}

/// Parses arguments typed by the operator with the strict JSON parser, which rejects ambiguous input.
fn arguments_in(text: &str) -> Result<Map<String, Value>, String> {
    match strict_json::parse(text).map_err(|error| error.to_string())? {
        Value::Object(arguments) => Ok(arguments),
        other => Err(format!("it is {}", json_kind(&other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_summary_counts_omitted_characters() {
        assert_eq!(cut("short"), "short");
        assert!(cut(&"x".repeat(150)).ends_with("… 50 more"));
    }
}
