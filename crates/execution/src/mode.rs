//! The current operational mode: one value, and why it was not changed.

use std::sync::{Mutex, PoisonError};

use tool::Mode;

/// Holds the mode.
pub(crate) struct ModeCell {
    current: Mutex<Mode>,
}

/// Why the mode was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// The change could not be recorded.
    #[error("the mode was not changed: {0}")]
    NotRecorded(String),
    /// It takes the PIN, in the mode that holds by now.
    #[error("the operator PIN is needed")]
    Unproven,
    /// There is no such edge.
    #[error("no way leads from {from} to {to}: from {from} a human can set {}", .ways.iter().map(|way| way.as_str()).collect::<Vec<_>>().join(" or "))]
    NoWay {
        /// The mode that holds.
        from: Mode,
        /// The mode that was asked for.
        to: Mode,
        /// The modes that can be set.
        ways: Vec<Mode>,
    },
}

/// A mode that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSet {
    /// The mode that was left; the same one where nothing changed.
    pub previous: Mode,
    /// Whether it is on record. What makes the mode stricter holds also while nothing can be recorded, and is recorded
    /// as soon as that is possible; a crash before then would forget it.
    pub recorded: bool,
}

impl ModeSet {
    /// Whether a mode lets more happen than where it is entered from.
    pub fn loosens(to: Mode) -> bool {
        match to {
            Mode::Normal | Mode::Recovery => true,
            Mode::Alert | Mode::Degraded | Mode::Lockdown => false,
        }
    }

    /// Whether a human who sets it shows that it is them. A rule leads from DEGRADED to NORMAL without anybody, and from
    /// ALERT never: going round by DEGRADED would be a way past the question.
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
