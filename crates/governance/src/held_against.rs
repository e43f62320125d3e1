//! Record of the lists that the typed names of a call were matched against in the pre-check, so that the
//! judge does not match the same names against the same lists again.

use std::sync::Arc;

use crate::floor::Floor;
use crate::glob::PathGlobs;
use crate::standing::Standing;

/// Lists that did not forbid any typed name of a call. Exists only for a call that passed all of them.
#[derive(Debug)]
pub(crate) struct HeldAgainst {
    floor: Arc<Floor>,
    forbidden: Arc<PathGlobs>,
}

impl HeldAgainst {
    pub(crate) fn under(standing: &Standing<'_>) -> Self {
        let forbidden = Arc::clone(standing.forbidden_paths());
        HeldAgainst { floor: Arc::clone(&standing.policy.floor), forbidden }
    }

    /// Returns true if the judge would use the same lists now.
    ///
    /// Compares by identity: a list with equal patterns may have resolved its symbolic links differently.
    pub(crate) fn is_under(&self, standing: &Standing<'_>) -> bool {
        Arc::ptr_eq(&self.forbidden, standing.forbidden_paths())
            && Arc::ptr_eq(&self.floor, &standing.policy.floor)
    }
}
