//! Worker sessions on record: opened and closed.

use ledger::entry::{Session, SessionEvent};
use ledger::{Entry, LedgerError};
use serde_json::Value;
use telemetry::redact;

use crate::layer::ToolExecutionLayer;

/// Puts what happened to a session on record.
pub(crate) fn session(
    layer: &ToolExecutionLayer,
    id: &str,
    event: SessionEvent,
    data: &Value,
) -> Result<(), LedgerError> {
    let data = redact::shared().redact_value(data);
    let entry = Entry::Session(Session { id: id.to_owned(), event, data });
    layer.ledger.append(&entry).map(|_| ())
}
