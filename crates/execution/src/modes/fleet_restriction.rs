//! Restriction of the mode by a fleet: the stricter of the local mode and that of the fleet is in effect, and the local
//! mode returns when the fleet lifts its restriction.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tool::Mode;

use super::transition::{ModeChangeContext, ModeChangeRequest};
use crate::layer::ToolExecutionLayer;
use crate::modes::ModeError;

/// Restriction in effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Restriction {
    /// ALERT or LOCKDOWN, which the host must not loosen.
    mode: Option<Mode>,
    /// Mode that the host would have without the fleet, while the fleet restricts it.
    local: Option<Mode>,
}

/// Restriction of the mode by a fleet.
#[derive(Default)]
pub(crate) struct FleetRestriction(Mutex<Restriction>);

impl FleetRestriction {
    fn lock(&self) -> MutexGuard<'_, Restriction> {
        // The value is replaced as a whole, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mode of the fleet if it does not permit this mode.
    pub(crate) fn forbids(&self, to: Mode) -> Option<Mode> {
        self.lock().mode.filter(|mode| restrict(Some(*mode), to) != to)
    }

    /// Notes a mode that the operator or a rule has set, also one that the fleet has set already: it stays when the
    /// fleet lifts its restriction.
    pub(crate) fn note_local(&self, to: Mode) {
        let mut restriction = self.lock();
        if restriction.local.is_some() {
            restriction.local = Some(to);
        }
    }
}

/// Returns the stricter of the local mode and that of the fleet. ALERT replaces only NORMAL, because every other local
/// mode already restricts more or is a repair by the operator.
fn restrict(fleet: Option<Mode>, local: Mode) -> Mode {
    match (fleet, local) {
        (Some(Mode::Lockdown), _) => Mode::Lockdown,
        (Some(Mode::Alert), Mode::Normal) => Mode::Alert,
        (_, local) => local,
    }
}

impl ToolExecutionLayer {
    /// Sets the mode of the fleet: ALERT, LOCKDOWN or none. `by` names the fleet in the ledger; `local` is the mode before a restriction that an
    /// earlier daemon applied. Returns the local mode to remember for a restart, while the fleet restricts the host.
    pub async fn set_fleet_mode(
        self: &Arc<Self>,
        fleet: Option<Mode>,
        (by, reason): (&str, &str),
        local: Option<Mode>,
    ) -> Result<Option<Mode>, ModeError> {
        let (layer, by, reason) = (Arc::clone(self), by.to_owned(), reason.to_owned());
        // Spawned, so that the change is completed even if the service of the fleet ends.
        let changing = async move { layer.apply_fleet_mode(fleet, (&by, &reason), local).await };
        let fault = |_| Err(ModeError::NotRecorded("an internal fault in Sinew".to_owned()));
        tokio::spawn(changing).await.unwrap_or_else(fault)
    }

    async fn apply_fleet_mode(
        &self,
        fleet: Option<Mode>,
        (by, reason): (&str, &str),
        local: Option<Mode>,
    ) -> Result<Option<Mode>, ModeError> {
        // Taken before the modes are read: otherwise a LOCKDOWN by the operator in between would be undone.
        let turn = self.modes.lock.lock().await;
        let (before, current) = (*self.modes.fleet.lock(), self.mode());
        let remembered = before.local.or(local).filter(|local| {
            let in_effect = if before.local.is_some() { before.mode } else { fleet };
            // Another change since then, such as a local LOCKDOWN under ALERT, is the local mode now.
            restrict(in_effect, *local) == current
        });
        let local = remembered.unwrap_or(current);
        let after = Restriction { mode: fleet, local: fleet.is_some().then_some(local) };
        *self.modes.fleet.lock() = after;
        let request = ModeChangeRequest::from_fleet(restrict(fleet, local), reason, by);
        match ModeChangeContext::of(self).apply_in_turn(&request, &turn).await {
            Ok(_) => Ok(after.local),
            Err(error) => {
                *self.modes.fleet.lock() = before;
                Err(error)
            }
        }
    }

    /// Returns the local mode that returns when the fleet lifts its restriction; `None` without a restriction.
    pub fn mode_below_fleet(&self) -> Option<Mode> {
        self.modes.fleet.lock().local
    }
}
