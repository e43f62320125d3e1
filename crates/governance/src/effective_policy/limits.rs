//! Limits of a permitted call: rates, timeout, sizes and folders.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tool::Mode;

use super::EffectivePolicy;
use crate::external_targets::ExternalTargets;
use crate::files::HardLinks;
use crate::project::ProjectRules;
use crate::rates::RateRules;
use crate::situation::{Situation, Workspace, WorkspaceAccess};
use crate::verdict::PermitLimits;
use crate::visibility_filter::VisibilityFilter;

/// Output limit where no rule sets one.
const DEFAULT_OUTPUT_BYTES: u64 = 1024 * 1024;

impl EffectivePolicy<'_> {
    pub(crate) fn rates(&self, mode: Mode) -> RateRules {
        let by_definition = || {
            let limit = self.definition.rate_limit_per_hour()?;
            Some((limit, self.definition_rule("rate_limit_per_hour")))
        };
        RateRules {
            tool_per_hour: self.rules.and_then(|rules| rules.calls_per_hour.clone()).or_else(by_definition),
            mode_per_minute: self.policy.safety.calls_per_minute.get(mode).clone(),
            outbound_per_hour: match self.is_outbound() {
                true => self.policy.safety.outbound_per_hour.get(mode).clone(),
                false => None,
            },
        }
    }

    /// Returns the calls per hour that the tool itself is allowed.
    pub fn calls_per_hour(&self) -> Option<u32> {
        let own = self.rules.and_then(|rules| rules.calls_per_hour.as_ref()).map(|(limit, _)| *limit);
        own.or(self.definition.rate_limit_per_hour())
    }

    /// Returns the timeout of a call.
    pub fn timeout(&self) -> Duration {
        self.rules.and_then(|rules| rules.timeout).unwrap_or(self.definition.timeout())
    }

    /// Returns the largest file that it may read or write.
    pub fn max_file_bytes(&self) -> Option<u64> {
        self.rules.and_then(|rules| rules.max_file_bytes.as_ref()).map(|(most, _)| *most)
    }

    /// Returns the output limit.
    pub fn max_output_bytes(&self) -> u64 {
        self.rules.and_then(|rules| rules.max_output_bytes).unwrap_or(DEFAULT_OUTPUT_BYTES)
    }

    pub(crate) fn limits(&self, situation: &Situation<'_>, targets: &ExternalTargets) -> PermitLimits {
        let folders = self.sandbox_folders(situation, targets);
        PermitLimits {
            timeout: self.timeout(),
            max_file_bytes: self.max_file_bytes(),
            max_output_bytes: self.max_output_bytes(),
            rates: self.rates(situation.mode),
            writable_folders: self.writable_folders(situation, &folders),
            sandbox_folders: folders,
            program_folders: self.program_folders(),
            max_response_bytes: self.policy.safety.gateway.max_response_bytes,
            outbound: self.is_outbound().then(|| self.outbound()).into_iter().collect(),
            confinement: self.rules.map(|rules| rules.confinement).unwrap_or_default(),
            hard_links: self.hard_links(),
            visibility_filter: VisibilityFilter {
                built_in_denials: Arc::clone(&self.policy.built_in_denials),
                forbidden: Arc::clone(self.forbidden_paths()),
                project_forbidden: self
                    .policy
                    .projects
                    .iter()
                    .map(|project| Arc::clone(project.forbidden_paths(self.definition)))
                    .collect(),
            },
        }
    }

    /// Returns the handling of files with several hard links.
    pub(crate) fn hard_links(&self) -> HardLinks {
        self.rules.map_or(HardLinks::Refuse, |rules| rules.hard_links)
    }

    /// Returns the folders that a sandboxed process may work in. A pattern that is not a whole folder cannot
    /// be granted by the sandbox.
    fn sandbox_folders(&self, situation: &Situation<'_>, targets: &ExternalTargets) -> Vec<Workspace> {
        if !self.definition.requires_sandbox() {
            return Vec::new();
        }
        let folders = match self.rules.and_then(|rules| rules.allowed_paths.as_ref()) {
            Some(list) => list.whole_folders.iter().map(|folder| Workspace::read_write(folder)).collect(),
            None => situation.workspaces.iter().cloned().collect(),
        };
        // A program sees every workspace, so the scope of each project applies, whatever the call names.
        let (commands, isolation) = (&targets.commands, self.policy.isolation);
        let restrict = |folders, project: &ProjectRules| {
            project.restrict_folders(self.definition, commands, isolation, folders)
        };
        self.policy.projects.iter().fold(folders, restrict)
    }

    /// Returns the folders in which a call could have placed programs.
    fn writable_folders(&self, situation: &Situation<'_>, own: &[Workspace]) -> Vec<PathBuf> {
        if !self.definition.requires_sandbox() {
            return Vec::new();
        }
        let own = own.iter().filter(|folder| folder.access() == WorkspaceAccess::ReadWrite);
        let own = own.map(|folder| folder.root().to_owned());
        let mut found: Vec<PathBuf> = Vec::new();
        // Folders that any call may write to count, as in `check_program_folders`.
        for folder in own.chain(self.policy.writable_folders(situation.workspaces)) {
            if !found.contains(&folder) {
                found.push(folder);
            }
        }
        found
    }

    fn program_folders(&self) -> Vec<PathBuf> {
        let listed = self.rules.map_or(&[][..], |rules| &rules.program_folders);
        listed.iter().map(|(folder, _)| folder.clone()).collect()
    }
}
