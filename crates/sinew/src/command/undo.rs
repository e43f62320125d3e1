//! `sinew undo`: reverses the changes of a call, through the daemon if one runs, else in this process. Both
//! record it in the ledger.

use serde_json::{Value, json};

use crate::cli::UndoArgs;
use crate::command::{call, pin};
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, escape_invisible, escape_invisible_line, paint, print_message, print_result_line,
    print_warning,
};

pub(crate) fn run(args: &UndoArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let params = json!({"call_id": args.call_id, "dry_run": args.dry_run});
    let reply = match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => {
            pin::PinSource::from_args(args.pin).request_control(&context, "control/undo", params)?
        }
        CommandBackend::Local(_state) => in_this_process(&context, args)?,
    };
    render::reply(args.output, reply, |reply| show(reply, args.dry_run))
}

fn in_this_process(context: &CommandContext, args: &UndoArgs) -> Result<Value, CommandError> {
    let runtime = context.runtime()?;
    let layer = compose::embedded_layer(context)?;
    let mut source = pin::PinSource::from_args(args.pin);
    if !args.dry_run && layer.approvals().pin().is_set() {
        source.read_pin()?;
    }
    let by = call::caller("sinew undo");
    let undone = runtime.block_on(async {
        if args.dry_run {
            return Ok(server::preview_undo(&layer, args.call_id).await);
        }
        let proof = layer.approvals().pin().verify(source.known().map(str::to_owned)).await;
        let proof = proof.map_err(|error| CommandError::new(ExitKind::Refused, error.to_string()))?;
        Ok::<_, CommandError>(server::undo(&layer, args.call_id, &by, proof).await)
    });
    layer.close("sinew undo finished");
    undone?.map_err(CommandError::failed)
}

fn show(reply: &Value, dry_run: bool) -> Result<(), CommandError> {
    for change in reply["changes"].as_array().into_iter().flatten() {
        let path = escape_invisible_line(change["path"].as_str().unwrap_or_default());
        print_result_line(match change["action"].as_str() {
            Some("remove") => format!("removed  {path}"),
            Some("put_back") => format!("put back {path}"),
            _ => format!("restored {path}"),
        })?;
        if let Some(folder) = change["remaining_folder"].as_str() {
            print_result_line(format!(
                "kept     {}, which contains more than the call created",
                escape_invisible_line(folder)
            ))?;
        }
        if let Some(diff) = change["diff"].as_str() {
            print_result_line(escape_invisible(diff))?;
        }
    }
    if dry_run {
        print_warning("dry run: nothing was changed");
    } else if let Some(id) = reply["undo_id"].as_str() {
        print_message(paint(
            DIM_STYLE,
            format!("`sinew undo {id}` reverses this, where content was written or removed"),
        ));
    }
    Ok(())
}
