//! Curated map: required arguments per tool name, whether or not a tool of that name exists. It is built from
//! `guardrails.yaml`, all or nothing; it is immutable and replaced as a whole with each configuration
//! snapshot.

mod changes;
mod inspection;
mod tools;

use std::collections::HashMap;
use std::path::Path;

use strict_yaml::{Document, DocumentError};
use tool::{ToolName, canonical};

use crate::curated_file::GuardrailsFile;
use crate::entry::Entry;
use crate::name;

pub use changes::{CuratedChange, Demands};

/// Name and text of the `guardrails.yaml` that ships with Sinew, for writing it out to be edited.
pub const EMBEDDED: (&str, &str) = ("guardrails.yaml", TEXT);

const TEXT: &str = include_str!("../../../config/governance/guardrails.yaml");

/// Requirements of the curated map, by tool name.
#[derive(Debug, Default)]
pub struct Curated {
    entries: HashMap<ToolName, Entry>,
    /// Source of the entries; `None` for the empty map.
    document: Option<Document>,
    hash: String,
}

impl Curated {
    /// Returns a map without entries.
    pub fn none() -> Self {
        Self::default()
    }

    /// Loads `guardrails.yaml` from a policy folder. Refuses a file that users other than its owner can
    /// write.
    pub fn load(folder: &Path) -> Result<Self, CuratedError> {
        let file = folder.join(EMBEDDED.0);
        let document = Document::read_trusted(&file).map_err(|error| {
            let error = if file.exists() { error } else { error.suggest("run `sinew init` to create it") };
            CuratedError::new(vec![error])
        })?;
        Self::of(document)
    }

    /// Loads the map that ships with Sinew.
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

    /// SHA-256 digest of the file, as recorded in the ledger.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Replacement of a deprecated name, as text for the caller.
    pub fn deprecation(&self, name: &str) -> Option<&str> {
        self.of_unknown(name, |_| false)?.deprecated.as_deref()
    }

    /// Requirements for calls of an existing tool.
    pub(crate) fn of_tool(&self, name: &ToolName) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Requirements for a name that no tool has: those of the exact name, else those of the name after a host
    /// prefix, unless a tool of that bare name exists (`here`).
    pub(crate) fn of_unknown(&self, name: &str, here: impl Fn(&str) -> bool) -> Option<&Entry> {
        let find = |name: &str| self.entries.get(&ToolName::new(name).ok()?);
        find(name).or_else(|| find(name::without_host(name).filter(|bare| !here(bare))?))
    }
}

/// Error of a map that does not load, with every problem found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct CuratedError {
    problems: Vec<DocumentError>,
}

impl CuratedError {
    fn new(problems: Vec<DocumentError>) -> Self {
        CuratedError { problems }
    }

    /// Problems, each with its line and column.
    pub fn problems(&self) -> &[DocumentError] {
        &self.problems
    }

    fn text(&self) -> String {
        self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
    }
}

#[cfg(test)]
mod tests;
