//! The current operational mode: one value, changed only on record.

use std::sync::{Mutex, PoisonError};

use tool::Mode;

/// Holds the mode. A change is on disk before it takes effect, so a crash cannot leave a stricter mode.
pub(crate) struct ModeCell {
    current: Mutex<Mode>,
}

/// Why the mode was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ModeError {
    /// The change could not be recorded.
    #[error("the mode was not changed: {0}")]
    NotRecorded(String),
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
