//! `sinew mode` and `sinew lockdown`: show and change the operating mode. The daemon holds the mode and
//! records every change in the ledger.

use ledger::entry::ModeChange;
use ledger::{Entry, Filter, Reader};
use serde_json::{Value, json};
use tool::Mode;

use crate::cli::{ChangeArgs, JsonArgs, ModeCommand};
use crate::command::pin;
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, say, tell, visible_line};

pub(crate) fn run(command: ModeCommand) -> Result<Exit, Problem> {
    match command {
        ModeCommand::Get(output) => get(output),
        ModeCommand::Set { mode, change } => set(mode, change, "sinew mode set"),
        ModeCommand::History { limit, output } => history(limit, output),
    }
}

/// Enters LOCKDOWN, which is possible from every mode.
pub(crate) fn lockdown(change: ChangeArgs) -> Result<Exit, Problem> {
    set(Mode::Lockdown, change, "sinew lockdown")
}

fn get(output: JsonArgs) -> Result<Exit, Problem> {
    let reply = Setting::find()?.ask_control("control/mode.get", json!({}))?;
    render::reply(output, reply, |reply| {
        say(render::mode(text(reply, "mode")))?;
        if let Some(proposal) = reply.get("proposal") {
            let (to, reason) = (text(proposal, "to"), visible_line(text(proposal, "reason")));
            tell(paint(NOTE, format!("{to} is proposed: {reason}\nrun `sinew mode set {to}` to confirm it")));
        }
        Ok(())
    })
}

/// Prints the mode changes, oldest first, from the ledger files. Needs no daemon.
fn history(limit: usize, output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let filter = Filter { kind: Some("mode".to_owned()), limit: Some(limit), ..Filter::default() };
    let found = Reader::new(&compose::ledger_folder(&setting)).query(&filter);
    let mut found = found.map_err(Problem::failed)?;
    found.reverse();
    if output.json {
        let changes: Vec<Value> = found.iter().map(ledger::Record::json).collect();
        say(json!({"schema_version": 1, "changes": changes}))?;
        return Ok(Exit::Done);
    }
    let mut table = render::plain_table();
    for record in &found {
        if let Entry::Mode(ModeChange { from, to, reason, by, .. }) = &record.entry {
            let way = format!("{} → {}", render::mode(from.as_str()), render::mode(to.as_str()));
            let by = by.as_deref().map(visible_line).unwrap_or_default();
            table.add_row([record.time.strftime("%F %T").to_string(), way, by, visible_line(reason)]);
        }
    }
    if found.is_empty() {
        tell("the mode has never changed");
    } else {
        say(table)?;
    }
    Ok(Exit::Done)
}

fn set(mode: Mode, change: ChangeArgs, typed: &str) -> Result<Exit, Problem> {
    let reason = change.reason.unwrap_or_else(|| format!("operator ran `{typed}`"));
    let params = json!({"mode": mode, "reason": reason});
    let reply = pin::Source::of(change.pin).ask_control(&Setting::find()?, "control/mode.set", params)?;
    render::reply(change.output, reply, |reply| {
        let (before, now) = (text(reply, "previous"), text(reply, "mode"));
        say(match before == now {
            true => format!("{} (unchanged)", render::mode(now)),
            false => format!("{} → {}", render::mode(before), render::mode(now)),
        })?;
        if reply["recorded"] == false {
            let note =
                "the mode is in effect but not recorded in the ledger yet: a crash before that would lose it";
            tell(paint(NOTE, note));
        }
        Ok(())
    })
}

fn text<'a>(reply: &'a Value, key: &str) -> &'a str {
    reply[key].as_str().unwrap_or_default()
}
