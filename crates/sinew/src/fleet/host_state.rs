//! State of a host that survives a restart: the policy and the mode that it has taken, so that neither can be rolled
//! back.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use fleet::modes::{BeaconFilter, FleetModeOrder};
use fleet::policy::{PolicyBundle, PolicyPointer, PolicyRevision};
use serde::{Deserialize, Serialize};
use tool::Mode;

use crate::command_context::CommandContext;

const FILE: &str = "host.json";

/// Returns the folder of the membership and its state.
pub(crate) fn fleet_dir(context: &CommandContext) -> PathBuf {
    context.home().state_dir().join("fleet")
}

/// State that survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RememberedState {
    /// Last mode order.
    pub(crate) order: Option<FleetModeOrder>,
    /// Newest beacon, as of the last change of the mode.
    pub(crate) beacons: BeaconFilter,
    /// Revision of the policy.
    pub(crate) revision: Option<PolicyRevision>,
    /// Bundle of that revision.
    pub(crate) bundle: Option<PolicyBundle>,
    /// Newest pointer.
    pub(crate) pointer: Option<PolicyPointer>,
    /// Local mode, while the fleet restricts the host.
    pub(crate) local_mode: Option<Mode>,
}

/// Remembered state and the file that holds it.
pub(crate) struct HostState {
    path: PathBuf,
    state: Mutex<RememberedState>,
}

impl HostState {
    /// Reads the state. A file that cannot be read is an error: without it, a rollback would not be noticed.
    pub(crate) fn read(folder: &Path) -> io::Result<HostState> {
        let path = folder.join(FILE);
        let state = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => RememberedState::default(),
            bytes => serde_json::from_slice(&bytes?)?,
        };
        Ok(HostState { path, state: Mutex::new(state) })
    }

    /// Returns a copy of the state.
    pub(crate) fn get(&self) -> RememberedState {
        self.lock().clone()
    }

    /// Changes the state and writes it to disk. On a failure nothing is changed.
    pub(crate) fn change(&self, change: impl FnOnce(&mut RememberedState)) -> io::Result<()> {
        let mut state = self.lock();
        let mut changed = state.clone();
        change(&mut changed);
        if changed != *state {
            strict_yaml::replace_private_file(&self.path, &serde_json::to_vec_pretty(&changed)?)?;
            *state = changed;
        }
        Ok(())
    }

    /// Removes the state of a host that leaves its fleet.
    pub(crate) fn file(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    fn lock(&self) -> MutexGuard<'_, RememberedState> {
        // The state is replaced as a whole, so a panic elsewhere cannot have broken it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
