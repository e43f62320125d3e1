//! What the names of a call were held against before anything was opened, so that the same lists are not asked of the same
//! names twice.

use std::sync::Arc;

use crate::floor::Floor;
use crate::glob::PathGlobs;
use crate::standing::Standing;

/// What names were held against as they were typed, and passed. Only names that all of it let pass have one.
#[derive(Debug)]
pub(crate) struct HeldAgainst {
    floor: Arc<Floor>,
    forbidden: Option<Arc<PathGlobs>>,
}

impl HeldAgainst {
    pub(crate) fn under(standing: &Standing<'_>) -> Self {
        let forbidden = standing.rules.map(|rules| Arc::clone(&rules.forbidden_paths));
        HeldAgainst { floor: Arc::clone(&standing.policy.floor), forbidden }
    }

    /// Whether that is the very same that would be asked now. A list that reads alike is another: it may have followed
    /// other links.
    pub(crate) fn is_under(&self, standing: &Standing<'_>) -> bool {
        let same_list = match (&self.forbidden, standing.rules) {
            (Some(list), Some(rules)) => Arc::ptr_eq(list, &rules.forbidden_paths),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_list && Arc::ptr_eq(&self.floor, &standing.policy.floor)
    }
}
