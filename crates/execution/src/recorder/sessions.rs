//! Records the opening and closing of worker sessions.

use ledger::entry::{SessionEntry, SessionEvent};
use ledger::{LedgerEntry, LedgerError};
use serde_json::Value;
use telemetry::redact;

use crate::layer::ToolExecutionLayer;

/// Records an event of a worker session.
pub(crate) fn record_session(
    layer: &ToolExecutionLayer,
    id: &str,
    event: SessionEvent,
    data: &Value,
) -> Result<(), LedgerError> {
    let data = redact::shared().redact_value(data);
    let entry = LedgerEntry::Session(SessionEntry { id: id.to_owned(), event, data });
    layer.ledger.append(&entry).map(|_| ())
}
