//! Records the opening and closing of worker sessions.

use ledger::entry::{Session, SessionEvent};
use ledger::{Entry, LedgerError};
use serde_json::Value;
use telemetry::redact;

use crate::layer::ToolExecutionLayer;

/// Records an event of a worker session.
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
