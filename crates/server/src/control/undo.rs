//! `control/undo`: takes back what a call changed, or shows what that would do.

use std::sync::Arc;

use execution::{Reversal, Reverted, ToolExecutionLayer, UndoError, Undone};
use serde_json::{Value, json};
use tool::{CallId, Caller, Door};

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/undo", run };

fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let call_id: CallId = params.need("call_id")?;
    let (dry_run, pin): (Option<bool>, Option<String>) = (params.want("dry_run")?, params.want("pin")?);
    let dry_run = dry_run == Some(true);
    params.finish()?;
    let (layer, caller) = (Arc::clone(&control.layer), session.caller(Door::Socket));
    Ok(Answer::later(async move {
        // It changes files: who may not approve a write may not take one back either.
        if !dry_run && let Err(error) = layer.pin().verify(pin).await {
            return Err(RpcError::server(super::pin_word(&error), error.to_string()));
        }
        let undone = undo(&layer, call_id, dry_run, &caller).await;
        undone.map_err(|error| refused(&error)).and_then(|told| rpc::answer(&told))
    }))
}

/// Takes back what a call changed, or says what that would do: the same for this socket and for a command that finds
/// no daemon. Whoever calls this has asked for the PIN.
pub async fn undo(
    layer: &Arc<ToolExecutionLayer>,
    call_id: CallId,
    dry_run: bool,
    by: &Caller,
) -> Result<Value, UndoError> {
    if dry_run {
        let changes = layer.rehearse_undo(call_id).await?;
        return Ok(json!({"call_id": call_id, "dry_run": true, "changes": shown(&changes)}));
    }
    let Undone { id, changes } = layer.undo(call_id, by).await?;
    Ok(json!({"call_id": call_id, "undo_id": id, "dry_run": false, "changes": shown(&changes)}))
}

/// Each change as a human reads it.
fn shown(changes: &[Reverted]) -> Vec<Value> {
    let shown = |change: &Reverted| {
        let action = match change.how {
            Reversal::Removed => "remove",
            Reversal::Restored => "restore",
            Reversal::PutBack => "put_back",
        };
        let diff = change.difference.as_ref().map(|difference| &difference.text);
        json!({"path": change.path.to_string_lossy(), "action": action, "diff": diff})
    };
    changes.iter().map(shown).collect()
}

fn refused(error: &UndoError) -> RpcError {
    let word = match error {
        UndoError::Refused(_) => "undo_refused",
        UndoError::NotRecorded(_) => "ledger_unavailable",
        UndoError::Crashed => return RpcError::internal(),
    };
    RpcError::server(word, error.to_string())
}
