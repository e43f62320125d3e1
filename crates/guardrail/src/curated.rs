//! Curated map: required arguments per tool name, whether or not a tool of that name exists. It is built from
//! `guardrails.yaml`, all or nothing; it is immutable and replaced as a whole with each configuration
//! snapshot.

mod changes;
mod entry_checks;
mod tool_checks;

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use strict_yaml::layered::{self, LayeredNode};
use strict_yaml::{Document, DocumentError, Located};
use tool::refusal::ArgumentProblem;
use tool::{RuleRef, ToolDefinition, ToolName, canonical};

use crate::curated_file::GuardrailsFile;
use crate::{example, problem, tool_name};

pub use changes::{CuratedChange, RequirementChange};

/// Name and text of the `guardrails.yaml` that ships with Sinew, for writing it out to be edited.
pub const EMBEDDED_FILE: (&str, &str) = ("guardrails.yaml", EMBEDDED_TEXT);

const EMBEDDED_TEXT: &str = include_str!("../../../config/governance/guardrails.yaml");

/// Keys whose values are data of a call: they are replaced as a whole.
const OPAQUE_KEYS: [&str; 1] = ["example"];

fn embedded_document() -> Result<Document, DocumentError> {
    Document::from_text(&format!("built-in/{}", EMBEDDED_FILE.0), EMBEDDED_TEXT)
}

/// Requirements of the curated map, by tool name.
#[derive(Debug, Default)]
pub struct CuratedGuardrails {
    entries: HashMap<ToolName, CuratedRequirements>,
    /// Source of the entries; `None` for the empty map.
    document: Option<Document>,
    hash: String,
}

impl CuratedGuardrails {
    /// Returns a map without entries.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Loads `guardrails.yaml` from a policy folder over the built-in map; without a file, the built-in map.
    /// Refuses a file that users other than its owner can write.
    pub fn load(folder: &Path) -> Result<Self, CuratedError> {
        Self::load_over(folder, |user| {
            let mut user = LayeredNode::read(user, &OPAQUE_KEYS)?;
            let base = LayeredNode::read(&embedded_document()?, &OPAQUE_KEYS)?;
            let base = match user.take("extends") {
                None => Some(base),
                Some(word) if word.text() == Some("built_in") => Some(base),
                Some(word) if word.text() == Some("none") => None,
                Some(word) => {
                    let error = word.error("`extends` must be `none` or `built_in`");
                    return Err(error.with_suggestion("remove the key to extend the built-in file"));
                }
            };
            Ok(match base {
                Some(base) => layered::merge(base, user, &mut Vec::new()),
                None => user,
            })
        })
    }

    /// Loads `guardrails.yaml` in place of the built-in map, as versions before layers did.
    pub fn load_alone(folder: &Path) -> Result<Self, CuratedError> {
        Self::load_over(folder, |user| {
            let mut user = LayeredNode::read(user, &OPAQUE_KEYS)?;
            user.take("extends");
            Ok(user)
        })
    }

    fn load_over(
        folder: &Path,
        merge: impl FnOnce(&Document) -> Result<LayeredNode, DocumentError>,
    ) -> Result<Self, CuratedError> {
        let alone = |error| CuratedError { problems: vec![error] };
        let user = Document::read_trusted_if_present(&folder.join(EMBEDDED_FILE.0)).map_err(alone)?;
        let Some(user) = user else { return Self::embedded() };
        let mut map = Self::from_document(merge(&user).map_err(alone)?.into_document(user.name()))?;
        // The digest identifies the files as written, with their comments.
        map.hash = canonical::sha256_hex(format!("{EMBEDDED_TEXT}\0{}", user.text()).as_bytes());
        Ok(map)
    }

    /// Loads the map that ships with Sinew.
    pub fn embedded() -> Result<Self, CuratedError> {
        Self::from_document(embedded_document().map_err(|error| CuratedError { problems: vec![error] })?)
    }

    pub(crate) fn from_document(document: Document) -> Result<Self, CuratedError> {
        let file: GuardrailsFile =
            document.parse().map_err(|error| CuratedError { problems: vec![error] })?;
        let entries =
            entry_checks::check_entries(&document, file).map_err(|problems| CuratedError { problems })?;
        let hash = canonical::sha256_hex(document.text().as_bytes());
        Ok(CuratedGuardrails { entries, document: Some(document), hash })
    }

    /// Returns the document of the entries, merged from its layers. `None` for the empty map.
    pub fn document(&self) -> Option<&Document> {
        self.document.as_ref()
    }

    /// Returns the SHA-256 digest of the file, as recorded in the ledger.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the replacement of a deprecated name, as text for the caller.
    pub fn deprecation(&self, name: &str) -> Option<&str> {
        self.for_unknown_name(name, |_| false)?.deprecated.as_deref()
    }

    /// Returns the tool of this daemon to call instead of a name that only other hosts have.
    pub fn replacement(&self, name: &str) -> Option<&str> {
        self.for_unknown_name(name, |_| false)?.replacement.as_deref()
    }

    /// Returns an example for a name that no tool has, as text.
    pub fn example_text(&self, name: &str) -> Option<String> {
        let example = self.for_unknown_name(name, |_| false)?.example.as_ref()?;
        Some(example::to_text(&example.value)).filter(|text| !text.is_empty() && text != "{}")
    }

    /// Requirements for calls of an existing tool.
    pub(crate) fn for_tool(&self, name: &ToolName) -> Option<&CuratedRequirements> {
        self.entries.get(name)
    }

    /// Requirements for a name that no tool has: those of the exact name, else those of the name after a host
    /// prefix, unless a tool of that bare name exists (`here`).
    pub(crate) fn for_unknown_name(
        &self,
        name: &str,
        here: impl Fn(&str) -> bool,
    ) -> Option<&CuratedRequirements> {
        let find = |name: &str| self.entries.get(&ToolName::new(name).ok()?);
        find(name).or_else(|| find(tool_name::strip_host_prefix(name).filter(|bare| !here(bare))?))
    }
}

/// Requirements of the curated map for the calls of one tool name.
#[derive(Debug)]
pub(crate) struct CuratedRequirements {
    /// Name as written in the file, with its position.
    pub(crate) key: Located<String>,
    pub(crate) rule: RuleRef,
    pub(crate) required: Vec<Located<String>>,
    /// Groups of arguments of which at least one must be present.
    pub(crate) any_of_groups: Vec<Vec<Located<String>>>,
    pub(crate) min_lengths: Vec<(Located<String>, u32)>,
    /// Argument that holds nested calls.
    pub(crate) calls_field: Option<Located<String>>,
    /// Arguments, or a text that shows a call.
    pub(crate) example: Option<Located<Value>>,
    pub(crate) deprecated: Option<String>,
    /// Tool of this daemon that does the same.
    pub(crate) replacement: Option<String>,
}

impl CuratedRequirements {
    /// Iterates over every argument the entry names.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &Located<String>> {
        let lengths = self.min_lengths.iter().map(|(field, _)| field);
        self.required
            .iter()
            .chain(self.any_of_groups.iter().flatten())
            .chain(lengths)
            .chain(&self.calls_field)
    }

    /// Returns the problems of these arguments. A value that is not an object has no arguments.
    pub(crate) fn problems(
        &self,
        arguments: &Value,
        definition: Option<&ToolDefinition>,
    ) -> Vec<ArgumentProblem> {
        let argument = |field: &str| arguments.get(field).filter(|value| !problem::is_absent(Some(value)));
        let missing = self.required.iter().filter(|field| argument(field).is_none());
        let missing = missing.map(|field| {
            let kind = definition.map_or(problem::ANY_VALUE, |known| problem::argument_type(field, known));
            match arguments.get(field.as_str()) {
                None => problem::missing("", field, kind),
                Some(_) => problem::empty_field(field, kind),
            }
        });
        let unmet =
            self.any_of_groups.iter().filter(|group| group.iter().all(|field| argument(field).is_none()));
        let unmet = unmet.map(|group| problem::unmet_group(group.iter().map(|field| field.as_str())));
        let short = self.min_lengths.iter().filter_map(|(field, least)| {
            let length = argument(field)?.as_str()?.chars().count();
            (length < *least as usize).then(|| problem::too_short(field, *least, length))
        });
        missing.chain(unmet).chain(short).collect()
    }
}

/// Error of a map that does not load, with every problem found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.joined_messages())]
pub struct CuratedError {
    problems: Vec<DocumentError>,
}

impl CuratedError {
    /// Problems, each with its line and column.
    pub fn problems(&self) -> &[DocumentError] {
        &self.problems
    }

    fn joined_messages(&self) -> String {
        self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
    }
}

#[cfg(test)]
mod tests;
