//! `sinew sessions`: opens, lists and closes worker sessions. The daemon holds the sessions.

use serde_json::{Value, json};

use crate::cli::{JsonArgs, SessionsCommand};
use crate::command::each;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render::{self, text_field};
use crate::table::Column;
use crate::terminal::{DIM_STYLE, escape_invisible_line, paint, print_message, print_result_line};
use crate::units;

pub(crate) fn run(command: SessionsCommand) -> Result<ExitKind, CommandError> {
    match command {
        SessionsCommand::Open { name, tools, hop_budget, output } => open(&name, &tools, hop_budget, output),
        SessionsCommand::List(output) => list(output),
        SessionsCommand::Close { ids, output } => close(&ids, output),
    }
}

fn open(
    name: &str,
    tools: &[String],
    hop_budget: Option<u32>,
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let mut params = json!({"name": name, "allowlist": tools});
    if let (Some(budget), Some(params)) = (hop_budget, params.as_object_mut()) {
        params.insert("hop_budget".to_owned(), json!(budget));
    }
    let reply = CommandContext::from_environment()?.request_agent("sinew/session.open", params)?;
    render::reply(output, reply, |reply| {
        print_result_line(text_field(reply, "socket"))?;
        let line = format!("give this socket to the worker; `sinew sessions close {name}` ends the session");
        print_message(paint(DIM_STYLE, escape_invisible_line(&line)));
        Ok(())
    })
}

fn list(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let header = [
        Column::whole("SESSION"),
        Column::from("NAME"),
        Column::optional("OPENED BY", 4),
        Column::optional("SINCE", 3),
        Column::optional("TURNS", 2),
        Column::optional("CALLS", 1),
        Column::optional("LEFT", 1),
        Column::from("TOOLS"),
    ];
    render::reply(output, fetch_sessions(&CommandContext::from_environment()?)?, |reply| {
        render::print_list(render::items(reply, "sessions"), "no session is open", header, |session| {
            let number = |key: &str| session[key].as_u64().unwrap_or_default().to_string();
            let tools = render::items(session, "allowlist").iter().filter_map(Value::as_str);
            let tools: Vec<String> = tools.map(escape_invisible_line).collect();
            [
                text_field(session, "session_id"),
                text_field(session, "name"),
                opener_text(session),
                units::local_time_text(session["since"].as_str().unwrap_or_default()),
                number("turns"),
                number("hops"),
                number("hops_left"),
                tools.join(" "),
            ]
        })
    })
}

fn close(ids: &[String], output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let known = fetch_sessions(&context)?;
    each(ids, "sessions", output.json, |given| {
        let id = resolve_session_id(&known, given)?;
        let reply = context.request_control("control/sessions.close", json!({"session_id": id}))?;
        if !output.json {
            print_result_line(format!("{} is closed", escape_invisible_line(&id)))?;
        }
        Ok(reply)
    })
}

fn fetch_sessions(context: &CommandContext) -> Result<Value, CommandError> {
    context.request_control("control/sessions.list", json!({}))
}

/// Shortest prefix of a session id that is not taken for a name.
const MIN_PREFIX_LENGTH: usize = 4;

/// Returns the id of the session with this name, or the only one that starts with this text. The daemon refuses any other
/// text.
fn resolve_session_id(known: &Value, given: &str) -> Result<String, CommandError> {
    let sessions = render::items(known, "sessions");
    let id = |session: &Value| session["session_id"].as_str().unwrap_or_default().to_owned();
    if let Some(named) = sessions.iter().find(|session| session["name"] == given) {
        return Ok(id(named));
    }
    let begun: Vec<String> = sessions.iter().map(id).filter(|id| id.starts_with(given)).collect();
    match begun.as_slice() {
        [only] if given.len() >= MIN_PREFIX_LENGTH => Ok(only.clone()),
        [_, _, ..] => Err(CommandError::usage(format!("`{given}` starts {} session ids", begun.len()))
            .with_hint("give more digits, or the name: `sinew sessions list` shows both")),
        _ => Ok(given.to_owned()),
    }
}

fn opener_text(session: &Value) -> String {
    let by = &session["by"];
    let uid = by["uid"].as_u64().map(|uid| format!("uid {uid}")).unwrap_or_default();
    match text_field(by, "client") {
        client if client.is_empty() => uid,
        client => format!("{client} ({uid})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_found_by_name_and_by_prefix() {
        let known = json!({"sessions": [{"session_id": "aaaa1111", "name": "reviewer"},
            {"session_id": "aaaa2222", "name": "tester"}, {"session_id": "bbbb3333", "name": "aaaa1"}]});
        let find = |given: &str| resolve_session_id(&known, given).map_err(|error| error.message);
        assert_eq!(find("reviewer").unwrap(), "aaaa1111");
        assert_eq!(find("aaaa2").unwrap(), "aaaa2222");
        assert_eq!(find("aaaa1").unwrap(), "bbbb3333", "a name comes first");
        assert_eq!(find("aaaa").unwrap_err(), "`aaaa` starts 2 session ids");
        assert_eq!(find("bb").unwrap(), "bb", "too short for a prefix");
    }
}
