//! Modes: the current mode, its recovery at a start, changes by the operator and by rules, and the watch that
//! evaluates the rules.

mod fleet_restriction;
mod mode_cell;
mod recovery;
mod system_sampling;
mod transition;
mod watch;

pub(crate) use mode_cell::ModeCell;
pub use mode_cell::{ModeCause, ModeChangeResult, ModeError};
pub(crate) use recovery::{is_intact, recovered_mode, restore_mode};
#[cfg(test)]
pub(crate) use transition::report_proposal;
pub(crate) use watch::ModeWatch;
pub use watch::{ConditionPeak, RuleReaction, RuleRehearsal, RuleResponse};

use std::sync::Arc;

use fleet_restriction::FleetRestriction;
use transition::UnrecordedModeChanges;

/// State behind mode changes: the rules that cause them, their order and their records.
pub(crate) struct ModeControl {
    pub(crate) watch: Arc<ModeWatch>,
    unrecorded: UnrecordedModeChanges,
    fleet: FleetRestriction,
    /// Held while one change is applied.
    pub(crate) lock: tokio::sync::Mutex<()>,
}

impl ModeControl {
    pub(crate) fn new(watch: Arc<ModeWatch>) -> Self {
        ModeControl {
            watch,
            unrecorded: UnrecordedModeChanges::default(),
            fleet: FleetRestriction::default(),
            lock: tokio::sync::Mutex::default(),
        }
    }
}
