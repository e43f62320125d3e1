//! The mode on record, restored at a start.

use ledger::entry::{MissingCause, ModeChange};
use ledger::{Entry, Ledger, Recovery};
use serde_json::Value;
use tool::Mode;

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
