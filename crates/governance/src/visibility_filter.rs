//! Filter for the names that a permitted call may show, such as the entries of a directory listing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tool::RuleRef;
use tool::definition::PathAccess;

use crate::built_in_denials::BuiltInDenials;
use crate::glob::PathGlobs;
use crate::normalized_path::NormalizedPath;

/// Rules that hide names, shared with the policy they come from.
#[derive(Clone, Debug)]
pub struct VisibilityFilter {
    pub(crate) built_in_denials: Arc<BuiltInDenials>,
    pub(crate) forbidden: Arc<PathGlobs>,
    /// Paths that the policies of projects forbid.
    pub(crate) project_forbidden: Vec<Arc<PathGlobs>>,
}

impl VisibilityFilter {
    /// Returns true if a name may be shown: reading it would not be refused as forbidden.
    pub fn is_visible(&self, path: &Path) -> bool {
        !self.forbids(path, PathAccess::Read)
    }

    /// Returns the rule that hides a name, if there is one.
    pub(crate) fn hidden_by(&self, path: &Path) -> Option<RuleRef> {
        let name = NormalizedPath::canonical(path)?;
        let forbidden = self.lists().find_map(|list| list.first_match(&name)).cloned();
        forbidden
            .or_else(|| self.built_in_denials.find_denial(&name, PathAccess::Read).map(|denial| denial.rule))
    }

    /// Returns the paths that the rules of the call forbid without wildcards, including everything below
    /// them. Symbolic links are resolved.
    pub fn forbidden_literals(&self) -> impl Iterator<Item = &PathBuf> {
        self.lists().flat_map(|list| list.literal_paths())
    }

    fn lists(&self) -> impl Iterator<Item = &PathGlobs> {
        [&self.forbidden].into_iter().chain(&self.project_forbidden).map(AsRef::as_ref)
    }

    /// Returns the forbidden patterns of the call as written.
    pub fn forbidden_patterns(&self) -> Vec<&str> {
        self.lists().flat_map(PathGlobs::patterns).map(|written| written.text.as_str()).collect()
    }

    /// Returns true if a sandboxed program does not find the name, or must not change it.
    pub(crate) fn forbids_program(&self, name: &NormalizedPath, access: PathAccess) -> bool {
        self.lists().any(|list| list.first_match(name).is_some())
            || self.built_in_denials.find_program_denial(name, access)
    }

    /// Returns true if this access to the path would be refused as forbidden.
    pub(crate) fn forbids(&self, path: &Path, access: PathAccess) -> bool {
        let Some(name) = NormalizedPath::canonical(path) else { return true };
        let forbidden = self.lists().any(|list| list.first_match(&name).is_some());
        forbidden || self.built_in_denials.find_denial(&name, access).is_some()
    }
}
