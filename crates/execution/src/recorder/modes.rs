//! Restores the recorded mode at a start.

use ledger::entry::{MissingCause, ModeChange};
use ledger::{Entry, Ledger, Recovery};
use serde_json::Value;
use tool::Mode;

/// Restores the mode, and records the change if it is not the last recorded one.
pub(crate) fn restored_mode(ledger: &Ledger, recovery: &Recovery) -> Mode {
    let (last, mode) = (recovery.mode.unwrap_or(Mode::Normal), mode_after(recovery));
    if !is_whole(recovery) {
        let reason = "ledger records were removed or changed".to_owned();
        let by = Some("sinew".to_owned());
        let change = ModeChange { from: last, to: mode, reason, by, data: Value::Null };
        if let Err(error) = ledger.append(&Entry::Mode(change)) {
            tracing::error!(%error, "the change to LOCKDOWN could not be recorded");
        }
    }
    mode
}

/// Returns the last recorded mode. If records were removed or changed, one of them may have entered LOCKDOWN,
/// so the mode is LOCKDOWN until the operator changes it.
pub(crate) fn mode_after(recovery: &Recovery) -> Mode {
    if is_whole(recovery) { recovery.mode.unwrap_or(Mode::Normal) } else { Mode::Lockdown }
}

/// Returns true if no record was removed or changed.
pub(crate) fn is_whole(recovery: &Recovery) -> bool {
    let removed = recovery.missing.as_ref().is_some_and(|missing| missing.cause == MissingCause::Removed);
    !removed && recovery.damage.is_empty()
}
