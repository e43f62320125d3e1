//! Conjunction of two policies. While a change waits for the operator, a call must pass the accepted policy and
//! the changed one, so that everything the change tightens applies at once.
//!
//! The judge evaluates both (`EffectivePolicy::stricter`). This module combines what is not a verdict: the limits
//! of a permitted call, workspaces, rates and mode transitions.

use std::sync::Arc;

use tool::{RuleRef, canonical};

use crate::effective_policy::EffectivePolicy;
use crate::files::{HardLinks, Isolation, NetworkAccess, SessionsEntry};
use crate::policy::Policy;
use crate::rates::RateRules;
use crate::situation::{Workspace, WorkspaceAccess, Workspaces, access_at};
use crate::tool_rules::Confinement;
use crate::transitions::Transitions;
use crate::verdict::PermitLimits;
use crate::visibility_filter::VisibilityFilter;

impl Policy {
    /// Returns these rules with those of another policy in addition: a call must pass both.
    pub fn tightened_by(&self, other: Policy) -> Policy {
        let hash = canonical::sha256_hex([&*self.hash, &*other.hash].join("\n").as_bytes());
        let mut both = self.clone();
        both.transitions = Arc::new(self.transitions.tightened_by(&other.transitions));
        both.hash = hash.into();
        both.stricter = Some(Arc::new(other));
        both
    }

    /// Returns these rules and those that apply in addition.
    pub(crate) fn conjuncts(&self) -> impl Iterator<Item = &Policy> {
        [Some(self), self.stricter.as_deref()].into_iter().flatten()
    }

    /// Returns the default budgets of worker sessions.
    pub fn session_budgets(&self) -> SessionsEntry {
        let own = &self.files().safety.sessions;
        let hops = self.conjuncts().filter_map(|policy| policy.files().safety.sessions.hop_budget).min();
        SessionsEntry { hop_budget: hops, ..own.clone() }
    }
}

impl<'a> EffectivePolicy<'a> {
    /// Returns the rules that a call must pass in addition to these.
    pub fn stricter(&self) -> Option<EffectivePolicy<'a>> {
        let policy = self.policy.stricter.as_deref()?;
        Some(EffectivePolicy::new(policy, self.definition))
    }
}

impl PermitLimits {
    /// Returns limits within which both permits stay.
    pub(crate) fn intersection(self, other: PermitLimits) -> PermitLimits {
        let filter = |own: VisibilityFilter, other: VisibilityFilter| VisibilityFilter {
            project_forbidden: [own.project_forbidden, vec![other.forbidden], other.project_forbidden]
                .concat(),
            ..own
        };
        let is_in_both = |folder: &std::path::PathBuf| other.program_folders.contains(folder);
        let hard_links = match (self.hard_links, other.hard_links) {
            (HardLinks::Allow, HardLinks::Allow) => HardLinks::Allow,
            _ => HardLinks::Refuse,
        };
        let added = other.writable_folders.iter().filter(|folder| !self.writable_folders.contains(folder));
        PermitLimits {
            timeout: self.timeout.min(other.timeout),
            max_file_bytes: least(self.max_file_bytes, other.max_file_bytes),
            max_output_bytes: self.max_output_bytes.min(other.max_output_bytes),
            rates: self.rates.intersection(other.rates),
            hard_links,
            max_response_bytes: least(self.max_response_bytes, other.max_response_bytes),
            confinement: self.confinement.intersection(other.confinement),
            sandbox_folders: common_folders(&self.sandbox_folders, &other.sandbox_folders),
            // A folder that calls may write to by either policy may hold a program that a call placed there.
            writable_folders: self.writable_folders.iter().chain(added).cloned().collect(),
            program_folders: self
                .program_folders
                .iter()
                .filter(|folder| is_in_both(folder))
                .cloned()
                .collect(),
            outbound: [self.outbound, other.outbound].concat(),
            visibility_filter: filter(self.visibility_filter, other.visibility_filter),
        }
    }
}

impl RateRules {
    /// Returns the lower one of each pair of limits.
    pub(crate) fn intersection(self, other: RateRules) -> RateRules {
        type Limit = Option<(u32, RuleRef)>;
        let lower = |own: Limit, other: Limit| match (own, other) {
            (Some(own), Some(other)) => Some(if other.0 < own.0 { other } else { own }),
            (own, other) => own.or(other),
        };
        RateRules {
            tool_per_hour: lower(self.tool_per_hour, other.tool_per_hour),
            mode_per_minute: lower(self.mode_per_minute, other.mode_per_minute),
            outbound_per_hour: lower(self.outbound_per_hour, other.outbound_per_hour),
        }
    }
}

impl Confinement {
    fn intersection(self, other: Confinement) -> Confinement {
        let is_full = [self, other].iter().any(|one| one.min_isolation == Isolation::Full);
        let network = match (self.network, other.network) {
            (NetworkAccess::Off, _) | (_, NetworkAccess::Off) => NetworkAccess::Off,
            (NetworkAccess::Loopback, _) | (_, NetworkAccess::Loopback) => NetworkAccess::Loopback,
            (NetworkAccess::Full, NetworkAccess::Full) => NetworkAccess::Full,
        };
        // 0 seconds of processor time means no limit.
        let seconds = |one: Confinement| one.cpu_seconds.filter(|seconds| *seconds > 0);
        Confinement {
            min_isolation: if is_full { Isolation::Full } else { Isolation::Reduced },
            network,
            memory_mb: Some(self.effective_memory_mb().min(other.effective_memory_mb())),
            max_processes: Some(self.effective_max_processes().min(other.effective_max_processes())),
            cpu_seconds: least(seconds(self), seconds(other)),
        }
    }
}

impl Workspaces {
    /// Returns the folders of both lists, with the access that both grant. Relative paths start where they did,
    /// if that folder is still a workspace.
    pub fn intersection(&self, other: &Workspaces) -> Workspaces {
        let list = |workspaces: &Workspaces| workspaces.iter().cloned().collect::<Vec<_>>();
        let common = Workspaces::new(common_folders(&list(self), &list(other)));
        let base = self.base().filter(|base| common.iter().any(|folder| base.starts_with(folder.root())));
        common.with_base(base)
    }
}

impl Transitions {
    /// Returns these rules without those that loosen and that `other` does not have, and with the rules of
    /// `other` that tighten.
    fn tightened_by(&self, other: &Transitions) -> Transitions {
        let lists = |list: &Transitions, text: &str| list.rules.iter().any(|rule| rule.to_string() == text);
        let kept = self.rules.iter().filter(|rule| !rule.loosens() || lists(other, &rule.to_string()));
        let added = other.rules.iter().filter(|rule| !rule.loosens() && !lists(self, &rule.to_string()));
        Transitions::sorted(kept.chain(added).cloned().collect())
    }
}

/// Returns the folders that both lists contain, each with the lower access. The deepest folder around a path
/// decides the access to it, so access changes only at the listed folders.
fn common_folders(own: &[Workspace], other: &[Workspace]) -> Vec<Workspace> {
    let mut common: Vec<Workspace> = Vec::new();
    for folder in own.iter().chain(other) {
        let root = folder.root();
        let (Some(one), Some(two)) = (access_at(own, root), access_at(other, root)) else { continue };
        if !common.iter().any(|known| known.root() == root) {
            let may_write = [one, two] == [WorkspaceAccess::ReadWrite; 2];
            let lower = if may_write { WorkspaceAccess::ReadWrite } else { WorkspaceAccess::ReadOnly };
            common.push(Workspace::granted(root, lower));
        }
    }
    common
}

/// Returns the lower one of two limits; `None` means no limit.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
