//! `sinew mode` and `sinew lockdown`: how far the machine trusts its agent right now. The daemon holds the mode and
//! puts every change on record; this only asks it.

use serde_json::{Value, json};
use tool::Mode;

use crate::cli::{ChangeArgs, JsonArgs, ModeCommand};
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::say;

pub(crate) fn run(command: ModeCommand) -> Result<Exit, Problem> {
    match command {
        ModeCommand::Get(output) => get(output),
        ModeCommand::Set { mode, change } => set(mode, change, "sinew mode set"),
    }
}

/// One word that works from every mode.
pub(crate) fn lockdown(change: ChangeArgs) -> Result<Exit, Problem> {
    set(Mode::Lockdown, change, "sinew lockdown")
}

fn get(output: JsonArgs) -> Result<Exit, Problem> {
    let reply = Setting::find()?.ask_control("control/mode.get", json!({}))?;
    say(if output.json {
        render::versioned(reply).to_string()
    } else {
        render::mode(&text(&reply, "mode"))
    })?;
    Ok(Exit::Done)
}

fn set(mode: Mode, change: ChangeArgs, typed: &str) -> Result<Exit, Problem> {
    let reason = change.reason.unwrap_or_else(|| format!("a human typed `{typed}`"));
    let reply = Setting::find()?.ask_control("control/mode.set", json!({"mode": mode, "reason": reason}))?;
    if change.output.json {
        say(render::versioned(reply))?;
        return Ok(Exit::Done);
    }
    let (before, now) = (text(&reply, "previous"), text(&reply, "mode"));
    say(match before == now {
        true => format!("{} (as before)", render::mode(&now)),
        false => format!("{} → {}", render::mode(&before), render::mode(&now)),
    })?;
    Ok(Exit::Done)
}

fn text(reply: &Value, key: &str) -> String {
    reply.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
