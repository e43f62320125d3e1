//! `sinew sessions`: lists and closes worker sessions. The daemon holds the sessions.

use serde_json::{Value, json};

use crate::cli::{JsonArgs, SessionsCommand};
use crate::command::each::each;
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
    let reply = open(&Setting::find()?)?;
    if output.json {
        say(render::versioned(reply))?;
        return Ok(Exit::Done);
    }
    let sessions = reply.get("sessions").and_then(Value::as_array).cloned().unwrap_or_default();
    if sessions.is_empty() {
        tell("no session is open");
        return Ok(Exit::Done);
    }
    let mut table = render::plain_table();
    table.set_header(["SESSION", "NAME", "OPENED BY", "SINCE", "TURNS", "CALLS", "LEFT", "TOOLS"]);
    for session in &sessions {
        let number = |key: &str| session.get(key).and_then(Value::as_u64).unwrap_or_default().to_string();
        let tools = session.get("allowlist").and_then(Value::as_array).into_iter().flatten();
        let tools: Vec<String> = tools.filter_map(Value::as_str).map(visible_line).collect();
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
    say(table)?;
    Ok(Exit::Done)
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
    let sessions = known.get("sessions").and_then(Value::as_array).into_iter().flatten();
    let mut named = sessions.filter(|session| session.get("name") == Some(&json!(given)));
    let id = named.next().and_then(|session| session.get("session_id")).and_then(Value::as_str);
    id.unwrap_or(given).to_owned()
}

fn opener(session: &Value) -> String {
    let by = session.get("by").unwrap_or(&Value::Null);
    let uid = by.get("uid").and_then(Value::as_u64).map(|uid| format!("uid {uid}")).unwrap_or_default();
    match text(by, "client") {
        client if client.is_empty() => uid,
        client => format!("{client} ({uid})"),
    }
}
