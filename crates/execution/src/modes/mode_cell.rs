//! Cell with the current mode and its cause, and errors of mode changes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ledger::entry::ModeChange;
use serde::Serialize;
use tool::Mode;

/// Current mode and the change that led to it.
pub(crate) struct ModeCell {
    current: Mutex<Mode>,
    last_change: Mutex<Option<ModeCause>>,
}

/// Cause of the current mode, as shown to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModeCause {
    /// Time of the change.
    pub since: Timestamp,
    /// Mode before the change.
    pub from: Mode,
    /// Reason for the change: the rule and the measured values, or the text that the operator entered.
    pub reason: String,
    /// Rule or person that decided.
    pub by: Option<String>,
    /// Command that sets the next less strict mode. `None` in NORMAL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leave_with: Option<String>,
}

impl ModeCause {
    pub(crate) fn new(change: &ModeChange, since: Timestamp) -> Self {
        let next_mode = match change.to {
            Mode::Normal => None,
            Mode::Alert | Mode::Degraded | Mode::Recovery => Some(Mode::Normal),
            Mode::Lockdown => Some(Mode::Recovery),
        };
        ModeCause {
            since,
            from: change.from,
            reason: change.reason.clone(),
            by: change.by.clone(),
            leave_with: next_mode.map(|mode| format!("sinew mode set {mode}")),
        }
    }
}

/// Error of a mode change.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// The change could not be recorded.
    #[error("the mode was not changed: {0}")]
    NotRecorded(String),
    /// The change from the current mode requires the operator PIN, and no proof of the PIN was given.
    #[error("the mode was not changed: the operator PIN is required; repeat the request with `pin`")]
    PinRequired,
    /// The fleet does not permit the mode.
    #[error("the mode was not changed: the fleet has set {fleet}, which the signer of the fleet lifts")]
    RestrictedByFleet {
        /// Mode of the fleet.
        fleet: Mode,
    },
    /// The operator cannot change the current mode directly to the requested mode.
    #[error("cannot change the mode from {from} to {to}: from {from} the operator can set {}", .allowed.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(" or "))]
    NoTransition {
        /// Current mode.
        from: Mode,
        /// Requested mode.
        to: Mode,
        /// Modes that the operator can set from the current mode.
        allowed: Vec<Mode>,
    },
}

/// Result of a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeChangeResult {
    /// Mode before the change. If nothing changed, the current mode.
    pub previous: Mode,
    /// True if the change is recorded. A stricter mode takes effect even if the ledger cannot be written. It is
    /// recorded when the ledger can be written again; a crash before that loses the change.
    pub recorded: bool,
}

impl ModeChangeResult {
    /// Returns true if entering the mode can allow more than before.
    pub fn loosens(to: Mode) -> bool {
        match to {
            Mode::Normal | Mode::Recovery => true,
            Mode::Alert | Mode::Degraded | Mode::Lockdown => false,
        }
    }

    /// Returns true if the change requires the operator PIN. The change from ALERT to DEGRADED requires it,
    /// although it does not loosen: a rule can change DEGRADED to NORMAL automatically, so that a change through
    /// DEGRADED would bypass the PIN for the change from ALERT to NORMAL.
    pub fn needs_pin(from: Mode, to: Mode) -> bool {
        Self::loosens(to) || (from == Mode::Alert && to == Mode::Degraded)
    }
}

impl ModeCell {
    pub(crate) fn new(mode: Mode) -> Self {
        ModeCell { current: Mutex::new(mode), last_change: Mutex::new(None) }
    }

    /// Returns the change that led to the current mode. `None` if the mode has never changed, or before the record
    /// of the change has been read from the ledger.
    pub(crate) fn cause(&self) -> Option<ModeCause> {
        self.last_change().clone()
    }

    /// Sets the cause that was read from the ledger, unless the mode has changed since the daemon started.
    pub(crate) fn restore_cause(&self, cause: ModeCause) {
        self.last_change().get_or_insert(cause);
    }

    fn last_change(&self) -> MutexGuard<'_, Option<ModeCause>> {
        self.last_change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Mode {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, change: &ModeChange) {
        *self.last_change() = Some(ModeCause::new(change, Timestamp::now()));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = change.to;
    }
}
