//! Filter for the names that a permitted call may show, such as the entries of a directory listing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool::{PathAccess, RuleRef};

use crate::floor::Floor;
use crate::glob::PathGlobs;
use crate::name::Name;

/// Rules that hide names, shared with the policy they come from.
#[derive(Clone, Debug)]
pub struct Sight {
    pub(crate) floor: Arc<Floor>,
    pub(crate) forbidden: Arc<PathGlobs>,
}

impl Sight {
    /// Returns true if a name may be shown: reading it would not be refused as forbidden.
    pub fn shows(&self, path: &Path) -> bool {
        !self.forbids(path, PathAccess::Read)
    }

    /// Returns the rule that hides a name, if there is one.
    pub(crate) fn hidden_by(&self, path: &Path) -> Option<RuleRef> {
        let name = Name::canonical(path)?;
        let forbidden = self.forbidden.first_match(&name).cloned();
        forbidden.or_else(|| self.floor.protects(&name, PathAccess::Read).map(|floor| floor.rule))
    }

    /// Returns the paths that the rules of the call forbid without wildcards, including everything below
    /// them. Symbolic links are resolved.
    pub fn forbidden_by_name(&self) -> &[PathBuf] {
        self.forbidden.outright()
    }

    /// Returns the forbidden patterns of the call as written.
    pub fn patterns(&self) -> Vec<&str> {
        self.forbidden.written().iter().map(|written| written.text.as_str()).collect()
    }

    /// Returns true if this access to the path would be refused as forbidden.
    pub(crate) fn forbids(&self, path: &Path, access: PathAccess) -> bool {
        let Some(name) = Name::canonical(path) else { return true };
        let forbidden = self.forbidden.first_match(&name).is_some();
        forbidden || self.floor.protects(&name, access).is_some()
    }
}
