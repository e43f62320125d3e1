//! `sinew undo`: reverses the changes of a call, through the daemon if one runs, else in this process. Both
//! record it in the ledger.

mod plan;

use std::cell::RefCell;
use std::sync::Arc;

use execution::ToolExecutionLayer;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tool::{CallId, CallerEndpoint};

use self::plan::{UndoPlan, undoable_calls};
use crate::cli::{PinArgs, UndoArgs};
use crate::command::{call, call_ids, pin};
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, confirm, escape_invisible, escape_invisible_line, is_interactive, paint, print_message,
    print_result_line, print_warning,
};

pub(crate) fn run(args: &UndoArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    if let Some(since) = args.since {
        return undo_since(&context, args, since);
    }
    let id = match &args.call_id {
        Some(prefix) => call_ids::find_recorded(&context, prefix)?,
        None => {
            let last = undoable_calls(&context, None)?.into_iter().next();
            let last = last.ok_or_else(|| CommandError::failed("no recorded call can be undone"))?;
            print_message(format!("the last call that can be undone: {} {}", last.tool, last.id));
            last.id
        }
    };
    let reply = with_undo(&context, args.pin, |undo| undo(id, args.dry_run))?;
    render::reply(args.output, reply, |reply| show(reply, args.dry_run))
}

/// Undoes every call since a time, newest first, after one confirmation of the plan. Stops at the first call that cannot be
/// undone, so that no older change is reverted below a newer one.
fn undo_since(context: &CommandContext, args: &UndoArgs, since: Timestamp) -> Result<ExitKind, CommandError> {
    let calls = undoable_calls(context, Some(since))?;
    if calls.is_empty() {
        print_message("no call since then can be undone");
        return render::reply(args.output, json!({"undone": []}), |_| Ok(()));
    }
    let undone = with_undo(context, args.pin, |undo| {
        let plan = UndoPlan::make(&calls, |id| undo(id, true));
        if !args.output.json {
            plan.print()?;
        }
        if let Some(conflict) = plan.first_conflict() {
            return Err(CommandError::failed(conflict).with_hint(
                "nothing was undone; undo the calls before it one by one with `sinew undo CALL_ID`",
            ));
        }
        if args.dry_run {
            return Ok(Vec::new());
        }
        let question = format!("undo these {} calls?", calls.len());
        if !(args.yes || is_interactive() && confirm(&question)) {
            return Err(CommandError::new(ExitKind::Refused, "nothing was undone: not confirmed")
                .with_hint("`--yes` confirms without a prompt, `--dry-run` only shows the plan"));
        }
        let mut replies = Vec::new();
        for call in &calls {
            match undo(call.id, false) {
                Ok(reply) => replies.push(reply),
                Err(error) => {
                    let text =
                        format!("{} calls were undone, then {}: {}", replies.len(), call.id, error.message);
                    return Err(CommandError { message: text, ..error });
                }
            }
        }
        Ok(replies)
    })?;
    render::reply(args.output, json!({"dry_run": args.dry_run, "undone": undone}), |_| match args.dry_run {
        true => {
            print_warning("dry run: nothing was changed");
            Ok(())
        }
        false => print_result_line(format!("undid {} calls", undone.len())),
    })
}

/// Undo of one call, or with `true` its preview, through the daemon or in this process.
type UndoCall<'a> = dyn Fn(CallId, bool) -> Result<Value, CommandError> + 'a;

/// Calls `work` with a connection to the daemon if one runs, else with the layer of this process.
fn with_undo<T>(
    context: &CommandContext,
    pin: PinArgs,
    work: impl FnOnce(&UndoCall<'_>) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let source = RefCell::new(pin::PinSource::from_args(pin));
    match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => work(&|id, dry_run| {
            let params = json!({"call_id": id, "dry_run": dry_run});
            source.borrow_mut().request_control(context, "control/undo", params)
        }),
        CommandBackend::Local(_state) => {
            let (runtime, layer) = (context.runtime()?, compose::embedded_layer(context)?);
            let done = work(&|id, dry_run| in_this_process(&runtime, &layer, &source, id, dry_run));
            layer.close("sinew undo finished");
            done
        }
    }
}

fn in_this_process(
    runtime: &Runtime,
    layer: &Arc<ToolExecutionLayer>,
    source: &RefCell<pin::PinSource>,
    id: CallId,
    dry_run: bool,
) -> Result<Value, CommandError> {
    let mut source = source.borrow_mut();
    if !dry_run && layer.approvals().pin().is_set() && source.known().is_none() {
        source.read_pin()?;
    }
    let by = call::caller(call::CLI_NAME);
    let undone = runtime.block_on(async {
        if dry_run {
            return Ok(server::preview_undo(layer, id).await);
        }
        let proof =
            layer.approvals().pin().verify(CallerEndpoint::Control, source.known().map(str::to_owned)).await;
        let proof = proof.map_err(|error| CommandError::new(ExitKind::Refused, error.to_string()))?;
        Ok::<_, CommandError>(server::undo(layer, id, &by, proof).await)
    });
    undone?.map_err(CommandError::failed)
}

fn show(reply: &Value, dry_run: bool) -> Result<(), CommandError> {
    for change in reply["changes"].as_array().into_iter().flatten() {
        let path = escape_invisible_line(change["path"].as_str().unwrap_or_default());
        print_result_line(match (change["action"].as_str(), dry_run) {
            (Some("remove"), false) => format!("removed  {path}"),
            (Some("put_back"), false) => format!("put back {path}"),
            (_, false) => format!("restored {path}"),
            (Some("remove"), true) => format!("would remove   {path}"),
            (Some("put_back"), true) => format!("would put back {path}"),
            (_, true) => format!("would restore  {path}"),
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
