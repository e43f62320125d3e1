//! Differences between two snapshots, each classified by its effect. A difference that cannot be classified
//! counts as loosening, so that the operator reviews it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use governance::{Workspace, WorkspaceAccess};
use guardrail::{CuratedChange, CuratedGuardrails, RequirementChange};
use policy_tools::{PolicyDifference, PolicyEffect, compare_policies, compare_projects};
use tool::text::{escape_invisible_line, shorten};
use tool::{ToolDefinition, canonical};

use super::drift;
use crate::config_snapshot::ConfigSnapshot;
use crate::host::Host;

/// Maximum length of a manifest's description of its program in a report. The manifest has the whole text.
const MAX_DESCRIPTION_LEN: usize = 400;

/// Part of a snapshot that is compared on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SnapshotPart {
    /// Policy files and project policies.
    Policy,
    /// Tools and their servers.
    Tools,
    /// Keys that tools send.
    Keys,
    /// Folders of the callers.
    Workspaces,
    /// Curated map.
    Guardrails,
    /// Tables of host programs.
    Hosts,
    /// Setting outside the snapshot.
    Settings,
}

/// Difference, and the part of the snapshot that it is in.
pub(super) type PartDifference = (SnapshotPart, PolicyDifference);

/// Returns all differences.
pub(super) fn all_differences(old: &ConfigSnapshot, new: &ConfigSnapshot) -> Vec<PartDifference> {
    let definitions = definitions(old, new);
    let projects = compare_projects(&old.policy, &new.policy, &new.workspaces, &definitions);
    let mut policy = compare_policies((&old.policy, &new.policy), &old.workspaces, definitions);
    // The hash of a policy covers its projects, whose differences are listed on their own.
    policy.retain(|change| change.effect != PolicyEffect::Neutral || projects.is_empty());
    policy.extend(projects);
    let mut tools = tool_differences(old, new);
    tools.extend(server_differences(old, new));
    let mut hosts = Vec::new();
    if host_fingerprints(old) != host_fingerprints(new) {
        hosts.push(difference(PolicyEffect::Loosens, "the host tables changed".to_owned()));
    }
    let parts = [
        (SnapshotPart::Policy, policy),
        (SnapshotPart::Tools, tools),
        (SnapshotPart::Keys, key_differences(&old.keys, &new.keys)),
        (SnapshotPart::Workspaces, workspace_differences(old, new)),
        (SnapshotPart::Guardrails, curated_map_differences(&old.curated, &new.curated)),
        (SnapshotPart::Hosts, hosts),
    ];
    parts.into_iter().flat_map(|(part, list)| list.into_iter().map(move |found| (part, found))).collect()
}

/// Returns the differences between two curated maps. A dropped requirement permits calls that were refused
/// before, so it counts as loosening.
pub fn curated_map_differences(old: &CuratedGuardrails, new: &CuratedGuardrails) -> Vec<PolicyDifference> {
    let difference = |CuratedChange { direction, description, rule }| {
        let effect = match direction {
            RequirementChange::Stricter => PolicyEffect::Tightens,
            RequirementChange::Unchanged => PolicyEffect::Neutral,
            RequirementChange::Looser => PolicyEffect::Loosens,
        };
        PolicyDifference { effect, description, rule }
    };
    new.changes_since(old).into_iter().map(difference).collect()
}

/// Tools whose servers changed their definitions.
fn server_differences(old: &ConfigSnapshot, new: &ConfigSnapshot) -> Vec<PolicyDifference> {
    let changed = new.registry.all_versions().filter_map(|tool| {
        let name = tool.definition().version_key();
        let before = old.registry.tool_of(tool.definition())?.executor().pinned_description()?;
        let after = tool.executor().pinned_description();
        if after.as_ref() == Some(&before) {
            return None;
        }
        let description = drift::describe_drift(&before, &after.unwrap_or_default());
        Some(difference(
            PolicyEffect::Loosens,
            format!("the server changed the definition of the tool {name}: {description}"),
        ))
    });
    changed.collect()
}

/// Tools that were added, removed or redefined.
pub(super) fn tool_differences(old: &ConfigSnapshot, new: &ConfigSnapshot) -> Vec<PolicyDifference> {
    fn tools(snapshot: &ConfigSnapshot) -> BTreeMap<String, &ToolDefinition> {
        let definitions = snapshot.registry.all_versions().map(|tool| tool.definition().as_ref());
        definitions.map(|tool| (tool.version_key(), tool)).collect()
    }
    let (before, after) = (tools(old), tools(new));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone = gone.map(|name| difference(PolicyEffect::Tightens, format!("the tool {name} was removed")));
    let changed = after.iter().filter_map(|(name, tool)| {
        let state = match before.get(name) {
            None => "new",
            Some(known) if known.hash() != tool.hash() => "redefined",
            Some(_) => return None,
        };
        let description = format!("the tool {name} is {state}: {}", describe_tool(tool, new));
        Some(difference(PolicyEffect::Loosens, description))
    });
    gone.chain(changed).collect()
}

/// Describes a tool and the program behind it for the operator who accepts it.
fn describe_tool(tool: &ToolDefinition, snapshot: &ConfigSnapshot) -> String {
    let behind = snapshot.registry.tool_of(tool).map(|tool| tool.executor().backing());
    let kind = [("category", tool.category().to_string()), ("risk", tool.risk_level().to_string())];
    let description = kind.into_iter().chain(behind.unwrap_or_default());
    let description = description.map(|(label, text)| {
        format!("{label} {}", shorten(&escape_invisible_line(&text), MAX_DESCRIPTION_LEN))
    });
    description.collect::<Vec<_>>().join("; ")
}

/// Compares the access at every root of both lists. A folder that is no longer listed can still be in a workspace, with
/// more access than it had.
fn workspace_differences(old: &ConfigSnapshot, new: &ConfigSnapshot) -> Vec<PolicyDifference> {
    use WorkspaceAccess::{ReadOnly, ReadWrite};
    let (before, after) = (&old.workspaces, &new.workspaces);
    let roots: BTreeSet<&Path> = before.iter().chain(after.iter()).map(Workspace::root).collect();
    let changed = roots.into_iter().filter_map(|root| {
        let (effect, may) = match (before.access_at(root), after.access_at(root)) {
            (None, None) | (Some(ReadOnly), Some(ReadOnly)) | (Some(ReadWrite), Some(ReadWrite)) => {
                return None;
            }
            (Some(_), None) => (PolicyEffect::Tightens, "may no longer work"),
            (Some(ReadWrite), Some(ReadOnly)) => (PolicyEffect::Tightens, "may only read"),
            (None, Some(ReadOnly)) => (PolicyEffect::Loosens, "may read"),
            (None | Some(ReadOnly), Some(ReadWrite)) => (PolicyEffect::Loosens, "may read and write"),
        };
        Some(difference(effect, format!("callers {may} in {}", display_path(root))))
    });
    let mut found: Vec<PolicyDifference> = changed.collect();
    if found.is_empty() && before != after {
        let description = match before.base() == after.base() {
            true => "the workspaces are listed differently, with the same access",
            false => "relative paths start in another workspace",
        };
        found.push(difference(PolicyEffect::Neutral, description.to_owned()));
    }
    found
}

/// Keys that were added, removed or changed. A changed key counts as loosening, because its permissions are
/// unknown here.
fn key_differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<PolicyDifference> {
    let named =
        |name: &str| format!("the key `{}`", shorten(&escape_invisible_line(name), MAX_DESCRIPTION_LEN));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone =
        gone.map(|name| difference(PolicyEffect::Tightens, format!("{} is no longer sent", named(name))));
    let changed = after.iter().filter(|(name, description)| before.get(*name) != Some(description));
    let changed = changed.map(|(name, description)| {
        let state = if before.contains_key(name) { "changed" } else { "new" };
        difference(
            PolicyEffect::Loosens,
            format!("{} is {state}: {}", named(name), escape_invisible_line(description)),
        )
    });
    gone.chain(changed).collect()
}

/// Tools of both snapshots, each once, with the new definition first.
fn definitions<'a>(old: &'a ConfigSnapshot, new: &'a ConfigSnapshot) -> Vec<&'a ToolDefinition> {
    let all = |snapshot: &'a ConfigSnapshot| {
        let ours = snapshot.registry.all_versions().map(|tool| tool.definition().as_ref());
        ours.chain(snapshot.hosts.iter().flat_map(|host| host.judged_definitions(&snapshot.policy)))
    };
    let mut found: Vec<&ToolDefinition> = Vec::new();
    for definition in all(new).chain(all(old)) {
        let version = |known: &ToolDefinition| (known.name().clone(), known.major());
        if !found.iter().any(|known| version(known) == version(definition)) {
            found.push(definition);
        }
    }
    found
}

fn difference(effect: PolicyEffect, description: String) -> PolicyDifference {
    PolicyDifference { effect, description, rule: None }
}

fn display_path(folder: &Path) -> String {
    folder.display().to_string()
}

fn host_fingerprints(snapshot: &ConfigSnapshot) -> Vec<String> {
    snapshot.hosts.iter().map(Host::fingerprint).collect()
}

impl ConfigSnapshot {
    /// Digest of everything in the snapshot.
    pub(crate) fn fingerprint(&self) -> String {
        let tools = self.registry.all_versions().map(|tool| {
            let hash = tool.definition().hash();
            match tool.executor().pinned_description() {
                Some(pinned) => format!("{hash} {}", canonical::digest(&pinned)),
                None => hash.to_owned(),
            }
        });
        let folders = self.workspaces.iter().map(|folder| format!("{:?}", folder));
        let files = [self.policy.hash().to_owned(), self.curated.hash().to_owned()];
        let keys = self.keys.iter().map(|key| format!("{key:?}"));
        let all = files.into_iter().chain(tools).chain(folders).chain(host_fingerprints(self)).chain(keys);
        let all: Vec<String> = all.collect();
        canonical::sha256_hex(all.join("\n").as_bytes())
    }
}
