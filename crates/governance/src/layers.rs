//! Layers of the policy files: the built-in files are the base, the user's files override them key by key.
//!
//! The layers are merged as trees before they are parsed into the raw file types. The merged document leads
//! every position back to the file and line it was written at, so no other module knows of layers.

mod sets;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use strict_yaml::layered::{self, LayeredKind, LayeredMapping, LayeredNode};
use strict_yaml::{Document, DocumentError};

use crate::policy::PolicyDocuments;
use crate::problems::PolicyError;
use crate::suggested_change::PolicyFile;

use sets::NamedSets;

/// Folder in the names of the built-in files, as messages and records show it.
pub(crate) const BUILT_IN_FOLDER: &str = "built-in";

/// Key that says what a user's file extends.
const EXTENDS: &str = "extends";

/// Keys whose values are replaced as a whole: example calls are data, and the transition rules of a mode
/// machine are written to fit each other.
const OPAQUE_KEYS: [&str; 2] = ["examples", "transition_rules"];

/// Lists that mean something other than "none" where they are absent, with that meaning. Nothing can be added
/// to them or removed from them.
const MEANINGFUL_WHEN_ABSENT: [(&str, &str); 3] = [
    ("allowed_paths", "the caller's workspaces"),
    ("allowed_in_modes", "the modes of the tool's definition"),
    ("allowed_domains", "every host that the gateway allows"),
];

/// The user's policy files. A missing file leaves the built-in one as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserFiles {
    pub(crate) modes: Option<Document>,
    pub(crate) tools: Option<Document>,
    pub(crate) safety: Option<Document>,
}

/// Meaning of a user's file without the key `extends`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerDefault {
    /// It overrides the built-in file key by key.
    Extend,
    /// It replaces the built-in file: how versions before layers read it.
    Replace,
}

impl UserFiles {
    pub(crate) fn get(&self, file: PolicyFile) -> Option<&Document> {
        match file {
            PolicyFile::Modes => self.modes.as_ref(),
            PolicyFile::Tools => self.tools.as_ref(),
            PolicyFile::Safety => self.safety.as_ref(),
        }
    }

    pub(crate) fn set(&mut self, file: PolicyFile, document: Option<Document>) {
        *match file {
            PolicyFile::Modes => &mut self.modes,
            PolicyFile::Tools => &mut self.tools,
            PolicyFile::Safety => &mut self.safety,
        } = document;
    }

    /// Merges the files with the built-in ones.
    pub(crate) fn merge(&self, default: LayerDefault) -> Result<PolicyDocuments, PolicyError> {
        match PolicyFile::ALL.iter().all(|file| self.get(*file).is_none()) {
            true => built_in_documents(),
            false => self.merge_layers(default),
        }
    }

    fn merge_layers(&self, default: LayerDefault) -> Result<PolicyDocuments, PolicyError> {
        let mut errors = Vec::new();
        let mut read =
            |file| FileLayers::read(file, self.get(file), default).map_err(|error| errors.push(error)).ok();
        let layers = PolicyFile::ALL.map(&mut read);
        let [Some(modes), Some(tools), Some(safety)] = layers else {
            return Err(PolicyError::new(errors));
        };
        // Sets are defined in tools.yaml and used in every file.
        let sets = NamedSets::of(&tools, &mut errors);
        let [modes, tools, safety] = [modes, tools, safety].map(|layers| layers.merge(&sets, &mut errors));
        if errors.is_empty() {
            Ok(PolicyDocuments { modes, tools, safety })
        } else {
            Err(PolicyError::new(errors))
        }
    }
}

/// Returns the built-in files with their sets expanded. They never change, so this is done once.
pub(crate) fn built_in_documents() -> Result<PolicyDocuments, PolicyError> {
    static DOCUMENTS: LazyLock<Result<PolicyDocuments, PolicyError>> =
        LazyLock::new(|| UserFiles::default().merge_layers(LayerDefault::Extend));
    DOCUMENTS.clone()
}

fn built_in_name(file: PolicyFile) -> String {
    format!("{BUILT_IN_FOLDER}/{}", file.name())
}

/// Returns a built-in file as a tree. Reading it takes most of the time of a merge, so this is done once.
fn built_in_tree(file: PolicyFile) -> Result<LayeredNode, DocumentError> {
    type Tree = Result<LayeredNode, DocumentError>;
    static TREES: LazyLock<[(PolicyFile, Tree); 3]> = LazyLock::new(|| {
        PolicyFile::ALL.map(|file| {
            let document = Document::from_text(&built_in_name(file), file.built_in_text());
            (file, document.and_then(|document| LayeredNode::read(&document, &OPAQUE_KEYS)))
        })
    });
    let found = TREES.iter().find(|(known, _)| *known == file).map(|(_, tree)| tree.clone());
    found.unwrap_or_else(|| Err(DocumentError::for_file(&built_in_name(file), "is not a built-in file")))
}

/// Layers of one policy file.
pub(crate) struct FileLayers {
    name: String,
    base: LayeredNode,
    user: Option<LayeredNode>,
}

impl FileLayers {
    fn read(file: PolicyFile, user: Option<&Document>, default: LayerDefault) -> Result<Self, DocumentError> {
        let built_in_name = built_in_name(file);
        let mut base = built_in_tree(file)?;
        let user = user.map(|document| read_user_layer(document, default)).transpose()?;
        let name = user.as_ref().map_or(built_in_name, |user| user.origin.document.name().to_owned());
        let user = user.map(|user| separate_examples(&mut base, user));
        Ok(FileLayers { name, base, user })
    }

    fn merge(self, sets: &NamedSets, errors: &mut Vec<DocumentError>) -> Document {
        let FileLayers { name, mut base, user } = self;
        let Some(mut user) = user else {
            sets.expand(&mut base, errors);
            return base.into_document(&name);
        };
        sets.expand(&mut user, errors);
        // The sets of a base that is replaced are replaced too.
        if !matches!(&user.kind, LayeredKind::Mapping(mapping) if mapping.replaces) {
            sets.expand(&mut base, errors);
        }
        let mut unmatched = Vec::new();
        let merged = layered::merge(base, user, &mut unmatched);
        errors.extend(unmatched.iter().map(unmatched_error));
        refuse_changes_of_nothing(&merged, errors);
        merged.into_document(&name)
    }
}

/// Reads a user's file. `extends: none` makes it replace everything below it.
fn read_user_layer(document: &Document, default: LayerDefault) -> Result<LayeredNode, DocumentError> {
    let mut user = LayeredNode::read(document, &OPAQUE_KEYS)?;
    let is_alone = match user.take(EXTENDS) {
        None => default == LayerDefault::Replace,
        Some(word) => match word.text() {
            Some("none") => true,
            Some("built_in") => false,
            _ => {
                let hint = "write `none` to replace the built-in file, or remove the key to extend it";
                return Err(word.error("`extends` must be `none` or `built_in`").with_suggestion(hint));
            }
        },
    };
    if let (LayeredKind::Mapping(mapping), true) = (&mut user.kind, is_alone) {
        mapping.replaces = true;
    }
    Ok(user)
}

/// Returns true if a user's file says that it replaces the built-in one.
pub(crate) fn replaces_everything(document: &Document) -> bool {
    let user = read_user_layer(document, LayerDefault::Extend);
    user.is_ok_and(|user| matches!(&user.kind, LayeredKind::Mapping(mapping) if mapping.replaces))
}

/// Removes the shipped examples: from the base, because they describe the built-in policy alone, and from a
/// user's file that was written out from it.
fn separate_examples(base: &mut LayeredNode, mut user: LayeredNode) -> LayeredNode {
    for_each_tool(base, |name, entry| {
        let Some(shipped) = entry.take("examples") else { return };
        let LayeredKind::List(shipped) = shipped.kind else { return };
        let shipped: Vec<_> = shipped.iter().map(LayeredNode::to_json).collect();
        for_each_tool(&mut user, |known, entry| {
            let LayeredKind::Mapping(LayeredMapping { entries, .. }) = &mut entry.kind else { return };
            for (key, value) in entries.iter_mut().filter(|_| known.eq_ignore_ascii_case(name)) {
                if let (LayeredKind::List(items), "examples") = (&mut value.kind, key.name.as_str()) {
                    items.retain(|item| !shipped.contains(&item.to_json()));
                }
            }
        });
    });
    user
}

fn for_each_tool(root: &mut LayeredNode, mut edit: impl FnMut(&str, &mut LayeredNode)) {
    let LayeredKind::Mapping(root) = &mut root.kind else { return };
    for (_, tools) in root.entries.iter_mut().filter(|(key, _)| key.name == "tools") {
        let LayeredKind::Mapping(tools) = &mut tools.kind else { continue };
        tools.entries.iter_mut().for_each(|(key, entry)| edit(&key.name, entry));
    }
}

fn unmatched_error(item: &LayeredNode) -> DocumentError {
    let shown = item.text().map_or_else(|| item.to_json().to_string(), str::to_owned);
    let error = item.error(&format!("`{shown}` is not in the list below, so it cannot be removed"));
    error.with_suggestion("`sinew config show --effective` prints the list; write the item as it is there")
}

/// Refuses a change of a list that does not exist and whose absence is not an empty list.
fn refuse_changes_of_nothing(node: &LayeredNode, errors: &mut Vec<DocumentError>) {
    for (key, value) in node.entries() {
        let meaning = MEANINGFUL_WHEN_ABSENT.iter().find(|(name, _)| *name == key.name);
        if let (LayeredKind::Change(_), Some((name, meaning))) = (&value.kind, meaning) {
            let message = format!("there is no list `{name}` to change here: without one it means {meaning}");
            errors
                .push(value.error(&message).with_suggestion(format!("write the whole list: `{name}: […]`")));
        }
        refuse_changes_of_nothing(value, errors);
    }
}
