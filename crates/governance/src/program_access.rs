//! Files and network that the sandbox of a permitted call opens to its program, by the rules alone.

use std::path::{Path, PathBuf};

use guardrail::ValidCall;
use tool::definition::PathAccess;

use crate::confinement::SYSTEM_FOLDERS;
use crate::effective_policy::EffectivePolicy;
use crate::external_targets::ExternalTargets;
use crate::files::NetworkAccess;
use crate::normalized_path::NormalizedPath;
use crate::policy::Policy;
use crate::situation::{Situation, Workspace, WorkspaceAccess};
use crate::visibility_filter::VisibilityFilter;

/// Access of the program of one call.
#[derive(Clone, Debug)]
pub struct ProgramAccess {
    folders: Vec<Workspace>,
    read_only_folders: Vec<PathBuf>,
    may_change_files: bool,
    visibility_filter: VisibilityFilter,
    /// Network of the sandbox.
    pub network: NetworkAccess,
}

impl ProgramAccess {
    /// Returns the access of the program of a call that the policy permits; `None` if the call runs without a
    /// sandbox.
    pub fn of_call(policy: &Policy, situation: &Situation<'_>, call: &ValidCall) -> Option<Self> {
        let tool = EffectivePolicy::new(policy, call.definition());
        if !tool.definition.requires_sandbox() {
            return None;
        }
        let targets = ExternalTargets::from_arguments(tool.definition, call.arguments());
        let own = tool.limits(situation, &targets);
        let limits = match tool.stricter() {
            Some(stricter) => own.intersection(stricter.limits(situation, &targets)),
            None => own,
        };
        let system = SYSTEM_FOLDERS.iter().map(PathBuf::from);
        Some(ProgramAccess {
            read_only_folders: system.chain(limits.program_folders).collect(),
            folders: limits.sandbox_folders,
            may_change_files: tool.may_change_files(),
            visibility_filter: limits.visibility_filter,
            network: limits.confinement.network,
        })
    }

    /// Returns the folders that the program may work in.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(Workspace::root).chain(self.read_only_folders.iter().map(PathBuf::as_path))
    }

    /// Returns the workspaces and listed folders that grant an access.
    pub fn granted_folders(&self, access: PathAccess) -> impl Iterator<Item = &Path> {
        let is_granted = move |folder: &&Workspace| {
            !access.is_modifying() || folder.access() == WorkspaceAccess::ReadWrite
        };
        self.folders.iter().filter(is_granted).map(Workspace::root)
    }

    /// Returns true if the program may access a name: the deepest folder around it grants the access, and no rule
    /// hides the name.
    pub fn may_access(&self, path: &Path, access: PathAccess) -> bool {
        let Some(name) = NormalizedPath::canonical(path) else { return false };
        let around = self.folders.iter().filter(|folder| name.is_in(folder.root()));
        let deepest = around.max_by_key(|folder| folder.root().components().count());
        let is_granted = match access {
            PathAccess::Read => {
                deepest.is_some() || self.read_only_folders.iter().any(|folder| name.is_in(folder))
            }
            PathAccess::Write | PathAccess::Remove => {
                self.may_change_files
                    && deepest.is_some_and(|folder| folder.access() == WorkspaceAccess::ReadWrite)
            }
        };
        is_granted && !self.visibility_filter.forbids_program(&name, access)
    }
}
