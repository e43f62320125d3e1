//! The mode on record, restored at a start.

use ledger::entry::{MissingCause, ModeChange};
use ledger::{Entry, Ledger, Recovery};
use serde_json::Value;
use tool::Mode;

/// The mode to go on in, on record where it is not the one that was.
pub(crate) fn restored_mode(ledger: &Ledger, recovery: &Recovery) -> Mode {
    let (last, mode) = (recovery.mode.unwrap_or(Mode::Normal), mode_after(recovery));
    if !is_whole(recovery) {
        let reason = "records of the ledger were removed or changed".to_owned();
        let by = Some("sinew".to_owned());
        let change = ModeChange { from: last, to: mode, reason, by, data: Value::Null };
        if let Err(error) = ledger.append(&Entry::Mode(change)) {
            tracing::error!(%error, "the change to LOCKDOWN could not be recorded");
        }
    }
    mode
}

/// The mode to go on in: the last on record. Where records were taken away or changed, one of them may have said
/// LOCKDOWN, so LOCKDOWN it is, until a human says otherwise.
pub(crate) fn mode_after(recovery: &Recovery) -> Mode {
    if is_whole(recovery) { recovery.mode.unwrap_or(Mode::Normal) } else { Mode::Lockdown }
}

/// Whether every record is there as it was written.
pub(crate) fn is_whole(recovery: &Recovery) -> bool {
    let removed = recovery.missing.as_ref().is_some_and(|missing| missing.cause == MissingCause::Removed);
    !removed && recovery.damage.is_empty()
}
