//! `sinew undo`: reverses the changes of a call, through the daemon if one runs, else in this process. Both
//! record it in the ledger.

use serde_json::{Value, json};

use crate::cli::UndoArgs;
use crate::command::{call, pin};
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::{Reach, Setting};
use crate::terminal::{NOTE, QUIET, paint, say, tell, visible, visible_line};

pub(crate) fn run(args: &UndoArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let params = json!({"call_id": args.call_id, "dry_run": args.dry_run});
    let reply = match setting.reach_or_state()? {
        Reach::Daemon => pin::Source::of(args.pin).ask_control(&setting, "control/undo", params)?,
        Reach::Nobody(_state) => in_this_process(&setting, args)?,
    };
    render::reply(args.output, reply, |reply| show(reply, args.dry_run))
}

fn in_this_process(setting: &Setting, args: &UndoArgs) -> Result<Value, Problem> {
    let runtime = setting.runtime()?;
    let layer = compose::embedded_layer(setting)?;
    let mut source = pin::Source::of(args.pin);
    if !args.dry_run && layer.pin().is_set() {
        source.ask()?;
    }
    let by = call::caller("sinew undo");
    let undone = runtime.block_on(async {
        if args.dry_run {
            return Ok(server::rehearse_undo(&layer, args.call_id).await);
        }
        let proof = layer.pin().verify(source.known().map(str::to_owned)).await;
        let proof = proof.map_err(|error| Problem::new(Exit::Refused, error.to_string()))?;
        Ok::<_, Problem>(server::undo(&layer, args.call_id, &by, proof).await)
    });
    layer.close("sinew undo finished");
    undone?.map_err(Problem::failed)
}

fn show(reply: &Value, dry_run: bool) -> Result<(), Problem> {
    for change in reply["changes"].as_array().into_iter().flatten() {
        let path = visible_line(change["path"].as_str().unwrap_or_default());
        say(match change["action"].as_str() {
            Some("remove") => format!("removed  {path}"),
            Some("put_back") => format!("put back {path}"),
            _ => format!("restored {path}"),
        })?;
        if let Some(folder) = change["stays"].as_str() {
            say(format!("kept     {}, which contains more than the call created", visible_line(folder)))?;
        }
        if let Some(diff) = change["diff"].as_str() {
            say(visible(diff))?;
        }
    }
    if dry_run {
        tell(paint(NOTE, "dry run: nothing was changed"));
    } else if let Some(id) = reply["undo_id"].as_str() {
        tell(paint(QUIET, format!("`sinew undo {id}` reverses this, where content was written or removed")));
    }
    Ok(())
}
