//! Modes: the current mode, its recovery at a start, changes by the operator and by rules, and the watch that
//! evaluates the rules.

mod mode_cell;
mod recovery;
mod system_sampling;
mod transition;
mod watch;

pub(crate) use mode_cell::ModeCell;
pub use mode_cell::{ModeCause, ModeChangeResult, ModeError};
pub(crate) use recovery::{is_intact, recovered_mode, restore_mode};
pub(crate) use transition::UnrecordedModeChanges;
pub(crate) use watch::ModeWatch;
