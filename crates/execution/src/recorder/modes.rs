//! The mode on record: restored at a start, changed only once the change is on disk.

use ledger::entry::{MissingCause, ModeChange};
use ledger::{Entry, Ledger, Recovery};
use serde_json::Value;
use telemetry::{Event, emit};
use tool::{Caller, Mode};

use super::redacted;
use crate::layer::ToolExecutionLayer;
use crate::mode::ModeError;

/// The mode to go on in: the last on record. Where records were taken away or changed, one of them may have said
/// LOCKDOWN, so LOCKDOWN it is, until a human says otherwise.
pub(crate) fn restored_mode(ledger: &Ledger, recovery: &Recovery) -> Mode {
    let removed = recovery.missing.as_ref().is_some_and(|missing| missing.cause == MissingCause::Removed);
    let last = recovery.mode.unwrap_or(Mode::Normal);
    if !removed && recovery.damage.is_empty() {
        return last;
    }
    let reason = "records of the ledger were removed or changed".to_owned();
    let change = ModeChange {
        from: last,
        to: Mode::Lockdown,
        reason,
        by: Some("sinew".to_owned()),
        data: Value::Null,
    };
    if let Err(error) = ledger.append(&Entry::Mode(change)) {
        tracing::error!(%error, "the change to LOCKDOWN could not be recorded");
    }
    Mode::Lockdown
}

/// Puts a mode change on disk and announces it.
pub(crate) async fn mode_change(
    layer: &ToolExecutionLayer,
    from: Mode,
    to: Mode,
    reason: &str,
    by: &Caller,
) -> Result<(), ModeError> {
    let (by, reason) = (redacted(&by.display_name()), redacted(reason));
    let change = ModeChange { from, to, reason: reason.clone(), by: Some(by.clone()), data: Value::Null };
    let recorded = layer.ledger.append_durably(&Entry::Mode(change)).await;
    recorded.map_err(|error| ModeError::NotRecorded(error.to_string()))?;
    emit(Event::ModeTransition { from, to, reason: &reason, by: &by, sensors: None });
    Ok(())
}
