//! `sinew sessions`: lists and closes worker sessions. The daemon holds the sessions.

use serde_json::{Value, json};

use crate::cli::{JsonArgs, SessionsCommand};
use crate::command::each;
use crate::command::ps::text;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{say, tell, visible_line};

pub(crate) fn run(command: SessionsCommand) -> Result<Exit, Problem> {
    match command {
        SessionsCommand::List(output) => list(output),
        SessionsCommand::Close { ids, output } => close(&ids, output),
    }
}

fn list(output: JsonArgs) -> Result<Exit, Problem> {
    render::reply(output, open(&Setting::find()?)?, |reply| show(render::items(reply, "sessions")))
}

fn show(sessions: &[Value]) -> Result<(), Problem> {
    if sessions.is_empty() {
        tell("no session is open");
        return Ok(());
    }
    let mut table = render::plain_table();
    table.set_header(["SESSION", "NAME", "OPENED BY", "SINCE", "TURNS", "CALLS", "LEFT", "TOOLS"]);
    for session in sessions {
        let number = |key: &str| session[key].as_u64().unwrap_or_default().to_string();
        let tools = render::items(session, "allowlist").iter().filter_map(Value::as_str);
        let tools: Vec<String> = tools.map(visible_line).collect();
        table.add_row([
            text(session, "session_id"),
            text(session, "name"),
            opener(session),
            text(session, "since"),
            number("turns"),
            number("hops"),
            number("hops_left"),
            tools.join(" "),
        ]);
    }
    say(table)
}

fn close(ids: &[String], output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let known = open(&setting)?;
    each(ids, "sessions", output.json, |given| {
        let id = meant(&known, given);
        let reply = setting.ask_control("control/sessions.close", json!({"session_id": id}))?;
        if !output.json {
            say(format!("{} is closed", visible_line(&id)))?;
        }
        Ok(reply)
    })
}

fn open(setting: &Setting) -> Result<Value, Problem> {
    setting.ask_control("control/sessions.list", json!({}))
}

/// Returns the id of the session with this name, else the typed text as an id.
fn meant(known: &Value, given: &str) -> String {
    let named = render::items(known, "sessions").iter().find(|session| session["name"] == given);
    named.and_then(|session| session["session_id"].as_str()).unwrap_or(given).to_owned()
}

fn opener(session: &Value) -> String {
    let by = &session["by"];
    let uid = by["uid"].as_u64().map(|uid| format!("uid {uid}")).unwrap_or_default();
    match text(by, "client") {
        client if client.is_empty() => uid,
        client => format!("{client} ({uid})"),
    }
}
