//! Records starts and stops of the daemon.

use ledger::entry::{DaemonStart, DaemonStop};
use ledger::{LedgerEntry, LedgerError};
use serde::Serialize;
use serde_json::json;

use super::Recorder;
use crate::current_policy::CurrentPolicy;

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

impl Recorder {
    /// Records a start of the daemon with the policy and the mode in effect.
    pub(crate) fn record_start(
        &self,
        current: &CurrentPolicy,
        configuration: StartConfiguration,
    ) -> Result<(), LedgerError> {
        let data = json!({
            "configuration": configuration,
            "policy_hash": current.snapshot.load().policy.hash(),
            "mode": current.mode.get(),
            "recovered_in_us": u64::try_from(self.ledger.health().recovery_duration.as_micros()).unwrap_or(u64::MAX),
        });
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let start = DaemonStart { version, pid: std::process::id(), data };
        self.ledger.append(&LedgerEntry::Start(start)).map(|_| ())
    }

    /// Writes the open counts of repetitive records, records a clean stop and closes the ledger. Blocking.
    pub(crate) fn close(&self, reason: &str) {
        self.write_all_groups();
        let stop = LedgerEntry::Stop(DaemonStop { reason: reason.to_owned() });
        if let Err(error) = self.ledger.append(&stop) {
            tracing::error!(%error, "the stop could not be recorded");
        }
        self.ledger.close();
    }
}
