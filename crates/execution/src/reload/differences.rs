//! Differences between two snapshots, each classified by its effect. A difference that cannot be classified
//! counts as loosening, so that the operator reviews it.

use std::collections::BTreeMap;
use std::path::Path;

use governance::{Workspace, WorkspaceAccess};
use guardrail::{Curated, CuratedChange, Demands};
use policy_tools::{Difference, Effect, compare};
use tool::{ToolDefinition, canonical, shorten, visible_line};

use super::drift;
use crate::host::Host;
use crate::world::World;

/// Maximum length of a manifest's description of its program in a report. The manifest has the whole text.
const LONGEST_WORDS: usize = 400;

/// Returns all differences.
pub(super) fn between(old: &World, new: &World) -> Vec<Difference> {
    let mut found = compare(&old.policy, &new.policy, definitions(old, new));
    found.extend(between_tools(old, new));
    found.extend(between_servers(old, new));
    found.extend(between_workspaces(old, new));
    found.extend(between_keys(&old.keys, &new.keys));
    found.extend(between_maps(&old.curated, &new.curated));
    if hosts(old) != hosts(new) {
        found.push(difference(Effect::Loosens, "the host tables changed".to_owned()));
    }
    found
}

/// Returns the differences between two curated maps. A dropped requirement lets calls pass that were refused
/// before, so it counts as loosening.
pub fn between_maps(old: &Curated, new: &Curated) -> Vec<Difference> {
    let difference = |CuratedChange { demands, what, rule }| {
        let effect = match demands {
            Demands::More => Effect::Tightens,
            Demands::Same => Effect::Neutral,
            Demands::Less => Effect::Loosens,
        };
        Difference { effect, what, rule }
    };
    new.changes_since(old).into_iter().map(difference).collect()
}

/// Tools whose servers changed their definitions.
fn between_servers(old: &World, new: &World) -> Vec<Difference> {
    let pinned = |world: &World, name: &str| world.registry.get(name)?.executor().pinned();
    let names = new.registry.definitions().map(|tool| tool.name().as_str());
    let changed = names.filter_map(|name| {
        let (before, after) = (pinned(old, name)?, pinned(new, name));
        if after.as_ref() == Some(&before) {
            return None;
        }
        let what = drift::between(&before, &after.unwrap_or_default());
        Some(difference(
            Effect::Loosens,
            format!("the server changed the definition of the tool {name}: {what}"),
        ))
    });
    changed.collect()
}

/// Tools that were added, removed or redefined.
pub(super) fn between_tools(old: &World, new: &World) -> Vec<Difference> {
    fn tools(world: &World) -> BTreeMap<&str, &ToolDefinition> {
        let definitions = world.registry.definitions();
        definitions.map(|tool| (tool.name().as_str(), tool.as_ref())).collect()
    }
    let (before, after) = (tools(old), tools(new));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone = gone.map(|name| difference(Effect::Tightens, format!("the tool {name} was removed")));
    let changed = after.iter().filter_map(|(name, tool)| {
        let what = match before.get(name) {
            None => "new",
            Some(known) if known.hash() != tool.hash() => "redefined",
            Some(_) => return None,
        };
        let description = format!("the tool {name} is {what}: {}", introduced(tool, new));
        Some(difference(Effect::Loosens, description))
    });
    gone.chain(changed).collect()
}

/// Describes a tool and the program behind it for the operator who accepts it.
fn introduced(tool: &ToolDefinition, world: &World) -> String {
    let behind = world.registry.get(tool.name().as_str()).map(|tool| tool.executor().stands_for());
    let kind = [("category", tool.category().to_string()), ("risk", tool.risk_level().to_string())];
    let description = kind.into_iter().chain(behind.unwrap_or_default());
    let description =
        description.map(|(label, text)| format!("{label} {}", shorten(&visible_line(&text), LONGEST_WORDS)));
    description.collect::<Vec<_>>().join("; ")
}

fn between_workspaces(old: &World, new: &World) -> Vec<Difference> {
    let folders = |world: &World| -> BTreeMap<String, WorkspaceAccess> {
        let name = |folder: &Workspace| (shown(folder.root()), folder.access());
        world.workspaces.iter().map(name).collect()
    };
    let (before, after) = (folders(old), folders(new));
    let gone = before.keys().filter(|folder| !after.contains_key(*folder));
    let gone =
        gone.map(|folder| difference(Effect::Tightens, format!("callers may no longer work in {folder}")));
    let changed = after.iter().filter_map(|(folder, access)| {
        use WorkspaceAccess::{ReadOnly, ReadWrite};
        let (effect, what) = match (before.get(folder), access) {
            (None, ReadOnly) => (Effect::Loosens, "read"),
            (None | Some(ReadOnly), ReadWrite) => (Effect::Loosens, "read and write"),
            (Some(ReadWrite), ReadOnly) => (Effect::Tightens, "only read"),
            (Some(ReadOnly), ReadOnly) | (Some(ReadWrite), ReadWrite) => return None,
        };
        Some(difference(effect, format!("callers may {what} in {folder}")))
    });
    let mut found: Vec<Difference> = gone.chain(changed).collect();
    if found.is_empty() && old.workspaces != new.workspaces {
        found.push(difference(Effect::Neutral, "relative paths start in another workspace".to_owned()));
    }
    found
}

/// Keys that were added, removed or changed. A changed key counts as loosening, because its permissions are
/// unknown here.
fn between_keys(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Difference> {
    let named = |name: &str| format!("the key `{}`", shorten(&visible_line(name), LONGEST_WORDS));
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let gone = gone.map(|name| difference(Effect::Tightens, format!("{} is no longer sent", named(name))));
    let changed = after.iter().filter(|(name, description)| before.get(*name) != Some(description));
    let changed = changed.map(|(name, description)| {
        let what = if before.contains_key(name) { "changed" } else { "new" };
        difference(Effect::Loosens, format!("{} is {what}: {}", named(name), visible_line(description)))
    });
    gone.chain(changed).collect()
}

/// Tools of both snapshots, each once, with the new definition first.
fn definitions<'a>(old: &'a World, new: &'a World) -> Vec<&'a ToolDefinition> {
    let all = |world: &'a World| {
        let ours = world.registry.definitions();
        ours.chain(world.hosts.iter().flat_map(Host::definitions)).map(AsRef::as_ref)
    };
    let mut found: Vec<&ToolDefinition> = Vec::new();
    for definition in all(new).chain(all(old)) {
        if !found.iter().any(|known| known.name() == definition.name()) {
            found.push(definition);
        }
    }
    found
}

fn difference(effect: Effect, what: String) -> Difference {
    Difference { effect, what, rule: None }
}

fn shown(folder: &Path) -> String {
    folder.display().to_string()
}

fn hosts(world: &World) -> Vec<String> {
    world.hosts.iter().map(Host::fingerprint).collect()
}

impl World {
    /// Digest of everything in the snapshot.
    pub(crate) fn fingerprint(&self) -> String {
        let pinned = |name: &str| self.registry.get(name)?.executor().pinned();
        let tools = self.registry.definitions().map(|tool| match pinned(tool.name().as_str()) {
            Some(pinned) => format!("{} {}", tool.hash(), canonical::digest(&pinned)),
            None => tool.hash().to_owned(),
        });
        let folders = self.workspaces.iter().map(|folder| format!("{:?}", folder));
        let files = [self.policy.hash().to_owned(), self.curated.hash().to_owned()];
        let keys = self.keys.iter().map(|key| format!("{key:?}"));
        let all = files.into_iter().chain(tools).chain(folders).chain(hosts(self)).chain(keys);
        let all: Vec<String> = all.collect();
        canonical::sha256_hex(all.join("\n").as_bytes())
    }
}
