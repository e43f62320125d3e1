//! Undo of the changes of a call. It is recorded before any file is touched, and again with its outcome. Only
//! the operator can request it, so the policy is not evaluated. A file that changed since the call is left
//! alone, and then nothing is undone.

use std::sync::Arc;

use file_access::{AccessError, UndoStore};
use ledger::{Ledger, LedgerEntry, LedgerError, entry};
use serde_json::{Value, json};
use telemetry::redact;
use tool::{CallId, Caller, Failure};

pub use file_access::{Reversal, RevertedChange};

use crate::layer::ToolExecutionLayer;
use approvals::OperatorProof;

/// Result of an undo.
#[derive(Debug)]
pub struct UndoResult {
    /// Id of the undo in the ledger. The undo itself can be undone by this id.
    pub id: CallId,
    /// Changes to each file, the last change of the call first.
    pub changes: Vec<RevertedChange>,
}

/// Error of an undo; nothing was undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The undo was refused; the message and the hint give the reason.
    #[error("{}{}", .0.message, .0.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
    Refused(Failure),
    /// The undo could not be recorded.
    #[error("nothing was undone, because it could not be recorded: {0}")]
    NotRecorded(LedgerError),
    /// Sinew panicked.
    #[error("an internal fault in Sinew ended the undo; see the daemon log for details")]
    Crashed,
}

impl ToolExecutionLayer {
    /// Returns the changes that an undo would make.
    pub async fn preview_undo(&self, call: CallId) -> Result<Vec<RevertedChange>, UndoError> {
        let store = Arc::clone(&self.undo);
        run_blocking(move || store.preview_revert(call)).await
    }

    /// Undoes all changes of a call, or nothing if one of the files has changed since. The undo is completed
    /// and recorded even if the client disconnects. It changes files, so it requires the same proof as the
    /// approval of a write.
    pub async fn undo(
        &self,
        call: CallId,
        by: &Caller,
        _proof: OperatorProof,
    ) -> Result<UndoResult, UndoError> {
        let by = redact::shared().redact_text(&by.display_name()).into_owned();
        let (ledger, store) = (Arc::clone(&self.recorder.ledger), Arc::clone(&self.undo));
        tokio::spawn(async move { run_undo(&ledger, store, call, by).await })
            .await
            .unwrap_or(Err(UndoError::Crashed))
    }
}

async fn run_undo(
    ledger: &Ledger,
    store: Arc<UndoStore>,
    call: CallId,
    by: String,
) -> Result<UndoResult, UndoError> {
    let id = CallId::fresh();
    let entry = |event: &str, data: Value| {
        let (id, event, call_id) = (id.to_string(), event.to_owned(), Some(call));
        LedgerEntry::Undo(entry::UndoEntry { id, event, call_id, data })
    };
    let begun = entry("restoring", json!({"by": by}));
    ledger.append_durably(&begun).await.map_err(UndoError::NotRecorded)?;
    let ended = run_blocking(move || store.revert(call, &store.for_undo(id))).await;
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
    if let Err(error) = ledger.append_durably(&last).await {
        tracing::error!(%error, %call, "an undo ended, but that could not be recorded");
    }
    ended.map(|changes| UndoResult { id, changes })
}

/// Runs file operations on the blocking pool.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AccessError> + Send + 'static,
) -> Result<T, UndoError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(ended) => ended.map_err(|error| UndoError::Refused(Failure::from(error))),
        Err(_) => Err(UndoError::Crashed),
    }
}
