//! Snapshot in effect while a change waits for the operator: what both the accepted configuration and the
//! candidate permit. What the candidate tightens applies at once; what it loosens does not apply.

use std::sync::Arc;

use policy_tools::PolicyEffect;
use tool::ToolDefinition;

use super::differences::{PartDifference, SnapshotPart};
use crate::config_snapshot::ConfigSnapshot;

/// Differences between the accepted configuration and a candidate.
pub(super) struct CandidateDifferences<'a>(pub(super) &'a [PartDifference]);

impl CandidateDifferences<'_> {
    fn has(&self, part: SnapshotPart, effect: PolicyEffect) -> bool {
        self.0.iter().any(|(known, change)| *known == part && change.effect == effect)
    }

    fn only_tightens(&self, part: SnapshotPart) -> bool {
        !self.has(part, PolicyEffect::Loosens)
    }

    /// Returns true if the tools and their keys can be replaced: the tools hold the keys.
    fn replaces_tools(&self) -> bool {
        self.only_tightens(SnapshotPart::Tools) && self.only_tightens(SnapshotPart::Keys)
    }

    /// Returns true if a change waits. A tightening waits only in a part of the snapshot that is replaced as a
    /// whole and also loosens.
    pub(super) fn waits(&self, (part, change): &PartDifference) -> bool {
        match (change.effect, part) {
            (PolicyEffect::Loosens, _) => true,
            (PolicyEffect::Neutral, _) => false,
            (PolicyEffect::Tightens, SnapshotPart::Keys) => !self.replaces_tools(),
            (PolicyEffect::Tightens, SnapshotPart::Guardrails) => {
                !self.only_tightens(SnapshotPart::Guardrails)
            }
            (
                PolicyEffect::Tightens,
                SnapshotPart::Policy
                | SnapshotPart::Tools
                | SnapshotPart::Workspaces
                | SnapshotPart::Hosts
                | SnapshotPart::Settings,
            ) => false,
        }
    }

    /// Returns the accepted snapshot with everything that the candidate tightens.
    pub(super) fn interim(&self, accepted: &ConfigSnapshot, candidate: ConfigSnapshot) -> ConfigSnapshot {
        let ConfigSnapshot { registry, policy, curated, workspaces, hosts: _, keys, problems } = candidate;
        let policy = match self.has(SnapshotPart::Policy, PolicyEffect::Tightens) {
            true => accepted.policy.tightened_by(policy),
            // Without a tightening the accepted policy is the stricter one.
            false => accepted.policy.clone(),
        };
        let (registry, keys) = match self.replaces_tools() {
            true => (registry, keys),
            false => {
                let is_kept = |tool: &ToolDefinition| registry.tool_of(tool).is_some();
                let mut kept = accepted.registry.clone();
                kept.retain(is_kept);
                (kept, accepted.keys.clone())
            }
        };
        ConfigSnapshot {
            registry,
            policy,
            curated: match self.only_tightens(SnapshotPart::Guardrails) {
                true => curated,
                false => Arc::clone(&accepted.curated),
            },
            workspaces: accepted.workspaces.intersection(&workspaces),
            hosts: Arc::clone(&accepted.hosts),
            keys,
            problems,
        }
    }
}
