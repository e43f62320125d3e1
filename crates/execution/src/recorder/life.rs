//! Starts and stops of the daemon, on record.

use ledger::entry::{Start, Stop};
use ledger::{Entry, LedgerError};
use serde::Serialize;
use serde_json::json;

use crate::layer::ToolExecutionLayer;

/// What a start found of the configuration that held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Configuration {
    /// Nothing ever held here: the files are taken.
    First,
    /// The files loosen nothing that was accepted, or nobody is to be asked: they are taken.
    Taken,
    /// The files loosen what was accepted: that holds, and they wait for a human.
    Waiting,
    /// Nobody knows what was accepted: the files are taken as they are.
    Unknown,
}

/// Puts a start of the daemon on record.
pub(crate) fn start(layer: &ToolExecutionLayer, configuration: Configuration) -> Result<(), LedgerError> {
    let data = json!({
        "configuration": configuration,
        "policy_hash": layer.world.load().policy.hash(),
        "mode": layer.mode(),
        "recovered_in_us": u64::try_from(layer.ledger.health().recovered_in.as_micros()).unwrap_or(u64::MAX),
    });
    let start = Start { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id(), data };
    layer.ledger.append(&Entry::Start(start)).map(|_| ())
}

/// Puts a clean stop on record, as far as anything can be recorded any more.
pub(crate) fn stop(layer: &ToolExecutionLayer, reason: &str) {
    if let Err(error) = layer.ledger.append(&Entry::Stop(Stop { reason: reason.to_owned() })) {
        tracing::error!(%error, "the stop could not be recorded");
    }
}
