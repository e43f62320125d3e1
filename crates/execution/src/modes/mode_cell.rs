//! Cell with the current mode, and errors of mode changes.

use std::sync::{Mutex, PoisonError};

use tool::Mode;

/// Current mode.
pub(crate) struct ModeCell {
    current: Mutex<Mode>,
}

/// Error of a mode change.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// The change could not be recorded.
    #[error("the mode was not changed: {0}")]
    NotRecorded(String),
    /// The change requires the operator PIN in the mode that is now current.
    #[error("the operator PIN is needed")]
    PinRequired,
    /// There is no such transition.
    #[error("cannot change the mode from {from} to {to}: from {from} the operator can set {}", .allowed.iter().map(|way| way.as_str()).collect::<Vec<_>>().join(" or "))]
    NoTransition {
        /// Current mode.
        from: Mode,
        /// Requested mode.
        to: Mode,
        /// Modes that can be set from here.
        allowed: Vec<Mode>,
    },
}

/// Result of a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeChangeResult {
    /// Previous mode; the current one if nothing changed.
    pub previous: Mode,
    /// True if the change is recorded. A stricter mode also takes effect while the ledger is unavailable and
    /// is recorded as soon as possible; a crash before that loses the change.
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

    /// Returns true if the operator needs the PIN for the change. A rule changes DEGRADED to NORMAL
    /// automatically, but never ALERT to NORMAL: without the PIN for ALERT to DEGRADED, that detour would
    /// bypass the PIN for ALERT to NORMAL.
    pub fn needs_pin(from: Mode, to: Mode) -> bool {
        Self::loosens(to) || (from == Mode::Alert && to == Mode::Degraded)
    }
}

impl ModeCell {
    pub(crate) fn new(mode: Mode) -> Self {
        ModeCell { current: Mutex::new(mode) }
    }

    pub(crate) fn get(&self) -> Mode {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }
}
