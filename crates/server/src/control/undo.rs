//! `control/undo`: reverts the file changes of a call, or previews the reversal.

use std::sync::Arc;

use approvals::OperatorProof;
use execution::ToolExecutionLayer;
use execution::undo::{Reversal, RevertedChange, UndoError, UndoResult};
use serde_json::{Value, json};
use tool::{CallId, Caller};

use super::ControlContext;
use crate::connection_state::ConnectionState;
use crate::rpc::{self, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

pub(super) fn run(control: &ControlContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let call_id: CallId = params.required("call_id")?;
    let dry_run = params.optional("dry_run")?.unwrap_or(false);
    let pin: Option<String> = params.optional("pin")?;
    params.finish()?;
    let (layer, caller) = (Arc::clone(&control.layer), session.operator());
    Ok(MethodReply::deferred(async move {
        let undone = match dry_run {
            true => preview_undo(&layer, call_id).await,
            false => {
                let proof = layer
                    .approvals()
                    .pin()
                    .verify(caller.endpoint, pin)
                    .await
                    .map_err(|error| super::pin_error(&error))?;
                undo(&layer, call_id, &caller, proof).await
            }
        };
        undone.map_err(|error| undo_error(&error)).and_then(|reply| rpc::encode_result(&reply))
    }))
}

/// Previews the reversal of a call. Used by this socket and by the command line when no daemon runs.
pub async fn preview_undo(layer: &ToolExecutionLayer, call_id: CallId) -> Result<Value, UndoError> {
    let changes = layer.preview_undo(call_id).await?;
    Ok(json!({"call_id": call_id, "dry_run": true, "changes": changes_to_json(&changes)}))
}

/// Reverts the changes of a call. Used by this socket and by the command line when no daemon runs.
pub async fn undo(
    layer: &Arc<ToolExecutionLayer>,
    call_id: CallId,
    by: &Caller,
    proof: OperatorProof,
) -> Result<Value, UndoError> {
    let UndoResult { id, changes } = layer.undo(call_id, by, proof).await?;
    Ok(json!({"call_id": call_id, "undo_id": id, "dry_run": false, "changes": changes_to_json(&changes)}))
}

/// Converts the changes to JSON for the operator.
fn changes_to_json(changes: &[RevertedChange]) -> Vec<Value> {
    let shown = |change: &RevertedChange| {
        let action = match change.reversal {
            Reversal::Removed => "remove",
            Reversal::Restored => "restore",
            Reversal::PutBack => "put_back",
        };
        let diff = change.diff.as_ref().map(|difference| &difference.text);
        json!({"path": change.path.to_string_lossy(), "action": action, "diff": diff,
            "remaining_folder": change.remaining_folder.as_ref().map(|folder| folder.to_string_lossy())})
    };
    changes.iter().map(shown).collect()
}

fn undo_error(error: &UndoError) -> RpcError {
    let word = match error {
        UndoError::Refused(_) => "undo_refused",
        UndoError::NotRecorded(_) => "ledger_unavailable",
        UndoError::Crashed => return RpcError::internal(),
    };
    RpcError::server(word, error.to_string())
}
