//! `sinew approvals`, `sinew approve` and `sinew deny`: show pending approval requests and send the
//! operator's decisions. The daemon holds the approval queue.

mod decisions;
mod watch;

use approvals::{ApprovalRequestLine, LineStyle, ListedApproval, escape_for_display};
use serde_json::{Map, Value, json};
use tool::strict_json;
use tool::text::json_kind;

use crate::cli::{ApprovalsCommand, JsonArgs};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, paint, print_message,
    print_result_line,
};
use crate::units;

pub(crate) use decisions::{approve, decide_on_terminal, deny, open_approvals_except};

pub(crate) fn run(command: ApprovalsCommand) -> Result<ExitKind, CommandError> {
    match command {
        ApprovalsCommand::List(output) => list(output),
        ApprovalsCommand::Show { id, output } => show(&id, output),
        ApprovalsCommand::Watch => watch::run(),
        ApprovalsCommand::Edit { id, arguments, pin, output } => {
            decisions::edit(&id, &arguments, pin, output)
        }
        ApprovalsCommand::Grants(output) => list_grants(output),
        ApprovalsCommand::Revoke { ids, output } => decisions::revoke(&ids, output),
    }
}

fn list(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let reply = CommandContext::from_environment()?.request_control("control/approvals.list", json!({}))?;
    render::reply(output, reply, |reply| show_list(render::items(reply, "approvals")))
}

fn show_list(approvals: &[Value]) -> Result<(), CommandError> {
    if approvals.is_empty() {
        print_message("no approvals are pending");
        return Ok(());
    }
    let mut table = Table::default();
    table.set_header([
        Column::whole("APPROVAL"),
        Column::optional("STATE", 3),
        Column::whole("LEFT"),
        Column::optional("RISK", 2),
        Column::optional("CALLER", 4),
        Column::from("WHAT IT WOULD DO"),
    ]);
    for approval in approvals {
        let left = approval["seconds_left"].as_u64().unwrap_or_default();
        table.add_row([
            text_field(approval, "id"),
            text_field(approval, "state"),
            units::span(left),
            text_field(approval, "risk"),
            text_field(approval, "caller"),
            shorten_summary(&text_field(approval, "summary")),
        ]);
    }
    render::print_table(&table)?;
    print_message(paint(
        DIM_STYLE,
        "`sinew approvals show ID` shows the whole request; `sinew approvals watch` decides with one key",
    ));
    Ok(())
}

fn show(id: &str, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let id = resolve_prefix(&context, id)?;
    let reply = context.request_control("control/approvals.show", json!({"id": id}))?;
    render::reply(output, reply, |reply| {
        let listed = parse_listed(reply.clone())?;
        let mut lines = request_heading(&listed).into_iter().chain(listed.request.lines());
        lines.try_for_each(|line| print_result_line(colour_line(&line)))
    })
}

fn list_grants(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let reply = CommandContext::from_environment()?.request_control("control/grants.list", json!({}))?;
    render::reply(output, reply, |reply| show_grants(render::items(reply, "grants")))
}

fn show_grants(grants: &[Value]) -> Result<(), CommandError> {
    if grants.is_empty() {
        print_message("no standing rules: every call that needs approval asks you");
    }
    for grant in grants {
        let left = grant["seconds_left"].as_u64().unwrap_or_default();
        print_result_line(paint(
            HEADING_STYLE,
            format!("{} ({} left)", text_field(grant, "id"), units::span(left)),
        ))?;
        for line in render::items(grant, "lines") {
            print_result_line(format!("  {}", escape_for_display(line.as_str().unwrap_or_default())))?;
        }
    }
    Ok(())
}

/// Returns the lines printed above an approval request.
fn request_heading(listed: &ListedApproval) -> Vec<ApprovalRequestLine> {
    let waits = if listed.waiting { "the caller is waiting" } else { "the caller is not waiting" };
    let text = format!(
        "approval {}: {}, {} left, {waits}",
        escape_for_display(&listed.request.id),
        escape_for_display(&listed.state),
        units::span(listed.seconds_left)
    );
    vec![ApprovalRequestLine { style: LineStyle::Muted, text }]
}

/// Returns a line of an approval request in its colour. The text contains visible characters only, so every
/// escape sequence in the result comes from `paint`.
fn colour_line(line: &ApprovalRequestLine) -> String {
    match line.style {
        LineStyle::Title => paint(HEADING_STYLE, &line.text),
        LineStyle::Plain => line.text.clone(),
        LineStyle::Muted => paint(DIM_STYLE, &line.text),
        LineStyle::Added => paint(SUCCESS_STYLE, &line.text),
        LineStyle::Removed => paint(ERROR_STYLE, &line.text),
        LineStyle::Warning => paint(WARNING_STYLE, &line.text),
    }
}

/// Returns the id of the only approval request with this prefix (at least 3 characters), else `id` itself.
fn resolve_prefix(context: &CommandContext, id: &str) -> Result<String, CommandError> {
    only_with_prefix(&context.request_control("control/approvals.list", json!({}))?, "approvals", id)
}

/// Returns the id of the only grant with this prefix (at least 3 characters), else `id` itself.
fn resolve_grant_prefix(context: &CommandContext, id: &str) -> Result<String, CommandError> {
    only_with_prefix(&context.request_control("control/grants.list", json!({}))?, "grants", id)
}

fn only_with_prefix(reply: &Value, list: &str, id: &str) -> Result<String, CommandError> {
    let ids = render::items(reply, list).iter().filter_map(|one| one["id"].as_str());
    let begun: Vec<&str> = ids.filter(|known| id.len() >= 3 && known.starts_with(id)).collect();
    match begun.as_slice() {
        [one] => Ok((*one).to_owned()),
        // The daemon reports an unknown or already decided id better than this list can.
        [] => Ok(id.to_owned()),
        _ => Err(CommandError::usage(format!(
            "`{}` matches several {list}: type more of the id",
            escape_for_display(id)
        ))),
    }
}

fn parse_listed(reply: Value) -> Result<ListedApproval, CommandError> {
    serde_json::from_value(reply)
        .map_err(|error| CommandError::failed(format!("the daemon's answer cannot be read: {error}")))
}

fn text_field(value: &Value, key: &str) -> String {
    value[key].as_str().map(escape_for_display).unwrap_or_default()
}

/// Shortens a summary to one table line and appends the number of omitted characters.
fn shorten_summary(summary: &str) -> String {
    const LONGEST: usize = 100;
    let length = summary.chars().count();
    match length > LONGEST {
        true => format!("{} … {} more", summary.chars().take(LONGEST).collect::<String>(), length - LONGEST),
        false => summary.to_owned(),
    }
}

/// Parses arguments typed by the operator with the strict JSON parser, which rejects ambiguous input.
fn parse_arguments(text: &str) -> Result<Map<String, Value>, String> {
    match strict_json::parse(text).map_err(|error| error.to_string())? {
        Value::Object(arguments) => Ok(arguments),
        other => Err(format!("it is {}", json_kind(&other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_prefix_is_resolved() {
        let reply = json!({"grants": [{"id": "dbe303a5"}, {"id": "dbe99999"}]});
        let resolve = |id: &str| only_with_prefix(&reply, "grants", id).map_err(|error| error.message);
        assert_eq!(resolve("dbe3").unwrap(), "dbe303a5");
        assert_eq!(resolve("db").unwrap(), "db", "too short");
        assert_eq!(resolve("ffff").unwrap(), "ffff", "the daemon reports it");
        assert!(resolve("dbe").unwrap_err().contains("several grants"));
    }

    #[test]
    fn shortened_summary_counts_omitted_characters() {
        assert_eq!(shorten_summary("short"), "short");
        assert!(shorten_summary(&"x".repeat(150)).ends_with("… 50 more"));
    }
}
