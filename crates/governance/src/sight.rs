//! What a permitted call may show of the names it comes across, such as the entries of a directory it lists.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool::{PathAccess, RuleRef};

use crate::floor::Floor;
use crate::glob::PathGlobs;
use crate::name::Name;

/// The rules that hide names, shared with the policy they come from.
#[derive(Clone, Debug)]
pub struct Sight {
    pub(crate) floor: Arc<Floor>,
    pub(crate) forbidden: Option<Arc<PathGlobs>>,
}

impl Sight {
    /// Whether a name may be shown: not if reading it would be refused as forbidden.
    pub fn shows(&self, path: &Path) -> bool {
        !self.forbids(path, PathAccess::Read)
    }

    /// The rule that hides a name, if one does.
    pub(crate) fn hidden_by(&self, path: &Path) -> Option<RuleRef> {
        let name = Name::canonical(path)?;
        let forbidden = self.forbidden.as_ref().and_then(|globs| globs.first_match(&name).cloned());
        forbidden.or_else(|| self.floor.protects(&name, PathAccess::Read).map(|floor| floor.rule))
    }

    /// What the rules of the call forbid by its plain name, with everything below it. Links in it are followed.
    pub fn forbidden_by_name(&self) -> &[PathBuf] {
        self.forbidden.as_ref().map_or(&[], |globs| globs.outright())
    }

    /// What the rules of the call forbid, as it is written.
    pub fn patterns(&self) -> Vec<&str> {
        let written = self.forbidden.iter().flat_map(|globs| globs.written());
        written.map(|written| written.text.as_str()).collect()
    }

    /// Whether doing this there would be refused as forbidden.
    pub(crate) fn forbids(&self, path: &Path, access: PathAccess) -> bool {
        let Some(name) = Name::canonical(path) else { return true };
        let forbidden = self.forbidden.as_ref().is_some_and(|globs| globs.first_match(&name).is_some());
        forbidden || self.floor.protects(&name, access).is_some()
    }
}
