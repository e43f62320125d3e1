//! Status of the membership, in a file that `sinew fleet doctor` reads.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use fleet::modes::LeaseState;
use fleet::policy::PointerFreshness;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const FILE: &str = "status.json";

/// Status of the membership as of the last change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FleetStatus {
    /// Time in milliseconds at which the daemon wrote it.
    pub(crate) at: u64,
    /// Connected, or the reason why not.
    pub(crate) connection: String,
    /// Version of the server.
    pub(crate) server: String,
    /// Last refusal of the server.
    pub(crate) fault: Option<String>,
    /// True while the lease is held.
    pub(crate) lease_held: bool,
    /// Mode of the fleet, and its epoch.
    pub(crate) fleet_mode: String,
    /// Epoch of that mode.
    pub(crate) mode_epoch: u64,
    /// Revision of the policy; 0 without one.
    pub(crate) policy: u64,
    /// State of that policy.
    pub(crate) policy_state: String,
    /// Freshness of the pointer.
    pub(crate) pointer: Value,
    /// Last refused bundle, beacon or order.
    pub(crate) refused: Option<String>,
    /// Last mirrored record.
    pub(crate) mirrored: u64,
    /// Last synced record.
    pub(crate) synced: u64,
    /// Reason why the ledger is not mirrored.
    pub(crate) mirror_fault: Option<String>,
}

impl FleetStatus {
    /// Reads the status that the daemon wrote last.
    pub(crate) fn read(folder: &Path) -> io::Result<Option<FleetStatus>> {
        match fs::read(StatusBoard::file(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => Ok(Some(serde_json::from_slice(&bytes?)?)),
        }
    }
}

/// Status that the parts of the service share.
pub(crate) struct StatusBoard {
    path: PathBuf,
    status: Mutex<FleetStatus>,
}

impl StatusBoard {
    pub(crate) fn new(folder: &Path) -> StatusBoard {
        let status = FleetStatus { connection: "connecting".to_owned(), ..FleetStatus::default() };
        StatusBoard { path: StatusBoard::file(folder), status: Mutex::new(status) }
    }

    /// Returns the path of the file.
    pub(crate) fn file(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// Returns a copy.
    pub(crate) fn get(&self) -> FleetStatus {
        self.lock().clone()
    }

    /// Changes the status, and logs and writes it if it differs.
    pub(crate) fn change(&self, change: impl FnOnce(&mut FleetStatus)) {
        let changed = {
            let mut status = self.lock();
            let before = status.clone();
            change(&mut status);
            (*status != before).then(|| status.clone())
        };
        if let Some(status) = changed {
            let text = serde_json::to_vec_pretty(&status).unwrap_or_default();
            if let Err(error) = strict_yaml::replace_private_file(&self.path, &text) {
                tracing::warn!(%error, "the status of the fleet cannot be written");
            }
        }
    }

    /// Notes a message of the fleet that was refused. The same reason is logged once.
    pub(crate) fn refuse(&self, error: &fleet::FleetError) {
        let reason = error.to_string();
        if self.lock().refused.as_ref() != Some(&reason) {
            tracing::warn!(%error, "fleet_message_refused");
        }
        self.change(|status| status.refused = Some(reason));
    }

    /// Notes the state of the lease and of the pointer.
    pub(crate) fn note_lease(&self, lease: LeaseState, pointer: Option<PointerFreshness>) {
        let pointer = pointer.map(|found| match found {
            // The age changes all the time, and the file is written on changes only.
            PointerFreshness::Frozen { .. } => serde_json::json!({"state": "frozen"}),
            other => serde_json::to_value(other).unwrap_or_default(),
        });
        self.change(|status| {
            status.lease_held = lease == LeaseState::Held;
            status.pointer = pointer.unwrap_or_default();
        });
    }

    fn lock(&self) -> MutexGuard<'_, FleetStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
