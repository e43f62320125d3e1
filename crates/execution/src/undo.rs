//! Taking back what a call changed: on record before anything is touched, and again with how it ended. Only a human asks
//! for it, so no rule is asked; what changed since is left alone.

use std::sync::Arc;

use ledger::{Entry, LedgerError, entry};
use resources::{AccessError, Reverted};
use serde_json::{Value, json};
use telemetry::redact;
use tool::{CallId, Caller, Failure};

use crate::approvals::OperatorProof;
use crate::layer::ToolExecutionLayer;

/// What was taken back.
#[derive(Debug)]
pub struct Undone {
    /// Names this in the record; what it changed itself can be undone by it.
    pub id: CallId,
    /// What happened to each file, the last change first.
    pub changes: Vec<Reverted>,
}

/// Why nothing was taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// It cannot be, or should not: the message and the hint say why.
    #[error("{}{}", .0.message, .0.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
    Refused(Failure),
    /// It could not be put on record.
    #[error("nothing was undone, because it could not be recorded: {0}")]
    NotRecorded(LedgerError),
    /// Sinew itself failed.
    #[error("a fault inside Sinew ended this; the log has the place")]
    Crashed,
}

impl ToolExecutionLayer {
    /// What taking back a call would do.
    pub async fn rehearse_undo(&self, call: CallId) -> Result<Vec<Reverted>, UndoError> {
        let store = Arc::clone(&self.undo);
        blocking(move || store.rehearse(call)).await
    }

    /// Takes back what a call changed. All of it, or nothing where something of it has changed since. It happens to its end,
    /// and that is on record, even if whoever asked goes away meanwhile. It changes files: who may not approve a write may not
    /// take one back either.
    pub async fn undo(
        self: &Arc<Self>,
        call: CallId,
        by: &Caller,
        _proof: OperatorProof,
    ) -> Result<Undone, UndoError> {
        let by = redact::shared().redact_text(&by.display_name()).into_owned();
        let layer = Arc::clone(self);
        let undoing = tokio::spawn(async move { layer.undo_to_its_end(call, by).await });
        undoing.await.unwrap_or(Err(UndoError::Crashed))
    }

    async fn undo_to_its_end(&self, call: CallId, by: String) -> Result<Undone, UndoError> {
        let id = CallId::fresh();
        let entry = |event: &str, data: Value| {
            let (id, event, call_id) = (id.to_string(), event.to_owned(), Some(call));
            Entry::Undo(entry::Undo { id, event, call_id, data })
        };
        let begun = entry("restoring", json!({"by": by}));
        self.ledger.append_durably(&begun).await.map_err(UndoError::NotRecorded)?;
        let store = Arc::clone(&self.undo);
        let ended = blocking(move || store.revert(call, &store.for_undo(id))).await;
        let last = match &ended {
            Ok(changes) => {
                let names = changes
                    .iter()
                    .map(|change| redact::shared().redact_text(&change.path.to_string_lossy()).into_owned());
                entry("restored", json!({"files": names.collect::<Vec<_>>()}))
            }
            Err(error) => {
                let message = redact::shared().redact_text(&error.to_string()).into_owned();
                entry("refused", json!({"message": message}))
            }
        };
        if let Err(error) = self.ledger.append_durably(&last).await {
            tracing::error!(%error, %call, "an undo ended, but that could not be recorded");
        }
        ended.map(|changes| Undone { id, changes })
    }
}

/// Files can block, and then nothing else must.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AccessError> + Send + 'static,
) -> Result<T, UndoError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(ended) => ended.map_err(|error| UndoError::Refused(Failure::from(error))),
        Err(_) => Err(UndoError::Crashed),
    }
}
