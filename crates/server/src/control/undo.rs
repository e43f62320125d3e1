//! `control/undo`: reverts the file changes of a call, or previews the reversal.

use std::sync::Arc;

use execution::{OperatorProof, Reversal, Reverted, ToolExecutionLayer, UndoError, Undone};
use serde_json::{Value, json};
use tool::{CallId, Caller, Door};

use super::Control;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call};
use crate::session::Session;

pub(super) fn run(control: &Control, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let call_id: CallId = params.need("call_id")?;
    let dry_run = params.want("dry_run")?.unwrap_or(false);
    let pin: Option<String> = params.want("pin")?;
    params.finish()?;
    let (layer, caller) = (Arc::clone(&control.layer), session.caller(Door::Socket));
    Ok(Answer::later(async move {
        let undone = match dry_run {
            true => rehearse_undo(&layer, call_id).await,
            false => {
                let proof = layer.pin().verify(pin).await.map_err(|error| super::pin_error(&error))?;
                undo(&layer, call_id, &caller, proof).await
            }
        };
        undone.map_err(|error| refused(&error)).and_then(|reply| rpc::answer(&reply))
    }))
}

/// Previews the reversal of a call. Used by this socket and by the command line when no daemon runs.
pub async fn rehearse_undo(layer: &ToolExecutionLayer, call_id: CallId) -> Result<Value, UndoError> {
    let changes = layer.rehearse_undo(call_id).await?;
    Ok(json!({"call_id": call_id, "dry_run": true, "changes": shown(&changes)}))
}

/// Reverts the changes of a call. Used by this socket and by the command line when no daemon runs.
pub async fn undo(
    layer: &Arc<ToolExecutionLayer>,
    call_id: CallId,
    by: &Caller,
    proof: OperatorProof,
) -> Result<Value, UndoError> {
    let Undone { id, changes } = layer.undo(call_id, by, proof).await?;
    Ok(json!({"call_id": call_id, "undo_id": id, "dry_run": false, "changes": shown(&changes)}))
}

/// Converts the changes to JSON for the operator.
fn shown(changes: &[Reverted]) -> Vec<Value> {
    let shown = |change: &Reverted| {
        let action = match change.how {
            Reversal::Removed => "remove",
            Reversal::Restored => "restore",
            Reversal::PutBack => "put_back",
        };
        let diff = change.difference.as_ref().map(|difference| &difference.text);
        json!({"path": change.path.to_string_lossy(), "action": action, "diff": diff,
            "stays": change.stays.as_ref().map(|folder| folder.to_string_lossy())})
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
