//! Records starts and stops of the daemon.

use ledger::entry::{DaemonStart, DaemonStop};
use ledger::{LedgerEntry, LedgerError};
use serde::Serialize;
use serde_json::json;

use crate::layer::ToolExecutionLayer;

/// Result of comparing the configuration files with the accepted configuration at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StartConfiguration {
    /// No configuration was accepted before; the files are applied.
    First,
    /// The files loosen nothing that was accepted, or the settings require no confirmation; the files are
    /// applied.
    Applied,
    /// The files loosen what was accepted. The accepted configuration stays in effect until the operator
    /// confirms the files.
    Waiting,
    /// The accepted configuration is unknown; the files are applied.
    Unknown,
}

/// Records a start of the daemon.
pub(crate) fn record_start(
    layer: &ToolExecutionLayer,
    configuration: StartConfiguration,
) -> Result<(), LedgerError> {
    let data = json!({
        "configuration": configuration,
        "policy_hash": layer.snapshot.load().policy.hash(),
        "mode": layer.mode(),
        "recovered_in_us": u64::try_from(layer.ledger.health().recovery_duration.as_micros()).unwrap_or(u64::MAX),
    });
    let start = DaemonStart { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id(), data };
    layer.ledger.append(&LedgerEntry::Start(start)).map(|_| ())
}

/// Records a clean stop, if the ledger can still be written.
pub(crate) fn record_stop(layer: &ToolExecutionLayer, reason: &str) {
    if let Err(error) = layer.ledger.append(&LedgerEntry::Stop(DaemonStop { reason: reason.to_owned() })) {
        tracing::error!(%error, "the stop could not be recorded");
    }
}
