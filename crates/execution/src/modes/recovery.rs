//! Restores the recorded mode at a start.

use ledger::entry::{MissingCause, ModeChange};
use ledger::{Ledger, LedgerEntry, LedgerRecovery};
use serde_json::Value;
use tool::Mode;

/// Restores the mode, and records the change if it is not the last recorded one.
pub(crate) fn restore_mode(ledger: &Ledger, recovery: &LedgerRecovery) -> Mode {
    let (last, mode) = (recovery.mode.unwrap_or(Mode::Normal), recovered_mode(recovery));
    if !is_intact(recovery) {
        let reason = "ledger records were removed or changed".to_owned();
        let by = Some("sinew".to_owned());
        let change = ModeChange { from: last, to: mode, reason, by, via: None, data: Value::Null };
        if let Err(error) = ledger.append(&LedgerEntry::Mode(change)) {
            tracing::error!(%error, "the change to LOCKDOWN could not be recorded");
        }
    }
    mode
}

/// Returns the last recorded mode. If records were removed or changed, one of them may have entered LOCKDOWN,
/// so the mode is LOCKDOWN until the operator changes it.
pub(crate) fn recovered_mode(recovery: &LedgerRecovery) -> Mode {
    if is_intact(recovery) { recovery.mode.unwrap_or(Mode::Normal) } else { Mode::Lockdown }
}

/// Returns true if no record was removed or changed.
pub(crate) fn is_intact(recovery: &LedgerRecovery) -> bool {
    let removed = recovery.missing.as_ref().is_some_and(|missing| missing.cause == MissingCause::Removed);
    !removed && recovery.damage.is_empty()
}
