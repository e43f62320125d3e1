//! The curated map: what calls of certain names must have, whether or not there is a tool of that name. Made from
//! `guardrails.yaml`, all or nothing; immutable, and replaced whole like every part of a snapshot.

mod changes;
mod inspection;
mod tools;

use std::collections::HashMap;
use std::path::Path;

use document::{Document, DocumentError};
use tool::{ToolName, canonical};

use crate::curated_file::GuardrailsFile;
use crate::entry::Entry;
use crate::name;

pub use changes::{CuratedChange, Demands};

/// The file that ships with Sinew, by name, for whoever writes it out to be edited.
pub const EMBEDDED: (&str, &str) = ("guardrails.yaml", TEXT);

const TEXT: &str = include_str!("../../../config/governance/guardrails.yaml");

/// What is demanded of calls, by name.
#[derive(Debug, Default)]
pub struct Curated {
    entries: HashMap<ToolName, Entry>,
    /// Where the entries stand; nowhere for the map that demands nothing.
    document: Option<Document>,
    hash: String,
}

impl Curated {
    /// A map that demands nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the file in a folder of policy files. Only its owner can have changed it.
    pub fn load(folder: &Path) -> Result<Self, CuratedError> {
        let file = folder.join(EMBEDDED.0);
        let document = Document::read_trusted(&file).map_err(|error| {
            let error = if file.exists() { error } else { error.suggest("`sinew init` writes it") };
            CuratedError::new(vec![error])
        })?;
        Self::of(document)
    }

    /// The map that ships with Sinew.
    pub fn embedded() -> Result<Self, CuratedError> {
        let document = Document::from_text(&format!("config/governance/{}", EMBEDDED.0), TEXT);
        Self::of(document.map_err(|error| CuratedError::new(vec![error]))?)
    }

    pub(crate) fn of(document: Document) -> Result<Self, CuratedError> {
        let file: GuardrailsFile = document.parse().map_err(|error| CuratedError::new(vec![error]))?;
        let entries = inspection::entries(&document, file).map_err(CuratedError::new)?;
        let hash = canonical::sha256_hex(document.text().as_bytes());
        Ok(Curated { entries, document: Some(document), hash })
    }

    /// The digest that pins the file in records.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What to use instead of a name that is kept only to answer those who still use it.
    pub fn deprecation(&self, name: &str) -> Option<&str> {
        self.of_unknown(name, |_| false)?.deprecated.as_deref()
    }

    /// What is demanded of a tool that is there.
    pub(crate) fn of_tool(&self, name: &ToolName) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// What is demanded under a name that no tool has: that very name, else the one after the prefix of a host, unless
    /// that is the name of a tool `here`.
    pub(crate) fn of_unknown(&self, name: &str, here: impl Fn(&str) -> bool) -> Option<&Entry> {
        let find = |name: &str| self.entries.get(&ToolName::new(name).ok()?);
        find(name).or_else(|| find(name::without_host(name).filter(|bare| !here(bare))?))
    }
}

/// A map that does not load: every problem that was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct CuratedError {
    problems: Vec<DocumentError>,
}

impl CuratedError {
    fn new(problems: Vec<DocumentError>) -> Self {
        CuratedError { problems }
    }

    /// Each with its place.
    pub fn problems(&self) -> &[DocumentError] {
        &self.problems
    }

    fn text(&self) -> String {
        self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
    }
}

#[cfg(test)]
mod tests;
