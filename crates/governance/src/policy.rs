//! The checked policy: what the judge reads. Made from the three files and their surroundings, all or nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use document::{Document, DocumentError};
use tool::{Category, Mode, SharedText, ToolName, canonical};

use crate::floor::{BUILT_IN_FLOOR, Floor};
use crate::mode_rules::{self, ModeRules, PerMode};
use crate::modes_file::ModesFile;
use crate::problems::{Inspection, PolicyError};
use crate::remedy::PolicyFile;
use crate::safety_file::SafetyFile;
use crate::safety_rules::{self, SafetyRules};
use crate::surroundings::Surroundings;
use crate::tool_rules::{self, CategoryRules, ToolRules};
use crate::tools_file::{Isolation, ToolsFile};
use crate::transitions::{self, Transitions};

/// The rules of one moment. Immutable; a reload makes another.
#[derive(Debug)]
pub struct Policy {
    pub(crate) modes: PerMode<ModeRules>,
    pub(crate) transitions: Arc<Transitions>,
    pub(crate) categories: BTreeMap<Category, CategoryRules>,
    pub(crate) tools: BTreeMap<ToolName, ToolRules>,
    pub(crate) safety: SafetyRules,
    pub(crate) floor: Arc<Floor>,
    pub(crate) known_categories: Vec<Category>,
    files: Files,
    warnings: Vec<DocumentError>,
    pub(crate) hash: SharedText,
    /// The walls this machine can build around a process.
    pub(crate) isolation: Option<Isolation>,
    /// The folders that the rules grant whole to tools that write.
    pub(crate) granted: Arc<[PathBuf]>,
}

/// The files as they are written, for those who read the parts that are not the judge's.
#[derive(Clone, Debug)]
pub struct Files {
    /// `modes.yaml`.
    pub modes: ModesFile,
    /// `tools.yaml`.
    pub tools: ToolsFile,
    /// `safety.yaml`.
    pub safety: SafetyFile,
    pub(crate) documents: Documents,
}

#[derive(Clone, Debug)]
pub(crate) struct Documents {
    pub(crate) modes: Document,
    pub(crate) tools: Document,
    pub(crate) safety: Document,
}

/// The files that ship with Sinew, by name, for whoever writes them out to be edited.
pub const EMBEDDED: [(&str, &str); 3] =
    [("modes.yaml", MODES), ("tools.yaml", TOOLS), ("safety.yaml", SAFETY)];

const MODES: &str = include_str!("../../../config/governance/modes.yaml");
const TOOLS: &str = include_str!("../../../config/governance/tools.yaml");
const SAFETY: &str = include_str!("../../../config/governance/safety.yaml");

impl Policy {
    /// Reads a folder of policy files that only their owner can have changed.
    pub fn load(folder: &Path, around: &Surroundings) -> Result<Self, PolicyError> {
        if !folder.is_dir() {
            let missing =
                DocumentError::unplaced(&folder.display().to_string(), "is not a folder of policy files");
            return Err(PolicyError::new(vec![missing.suggest("`sinew init` writes one")]));
        }
        let read = |name: &str| Document::read_trusted(&folder.join(name));
        let (modes, tools, safety) = all(read("modes.yaml"), read("tools.yaml"), read("safety.yaml"))?;
        Self::from_documents(Documents { modes, tools, safety }, around)
    }

    /// The policy that ships with Sinew.
    pub fn embedded(around: &Surroundings) -> Result<Self, PolicyError> {
        let (modes, tools, safety) =
            all(embedded_modes(), embedded("tools.yaml", TOOLS), embedded("safety.yaml", SAFETY))?;
        Self::from_documents(Documents { modes, tools, safety }, around)
    }

    pub(crate) fn from_documents(documents: Documents, around: &Surroundings) -> Result<Self, PolicyError> {
        let (modes, tools, safety) =
            all(documents.modes.parse(), documents.tools.parse(), documents.safety.parse())?;
        let files = Files { modes, tools, safety, documents };
        let floor = Floor::new(&around.protected).map_err(|error| {
            PolicyError::new(vec![DocumentError::unplaced(
                BUILT_IN_FLOOR,
                &format!("cannot be compiled: {}", error.message),
            )])
        })?;
        Checked::of(&files, around)?.into_policy(files, floor)
    }

    /// The same rules on a machine that can build these walls around a process. Without it there are none, and what
    /// must run confined is refused.
    pub fn on_machine_with(self, isolation: Option<Isolation>) -> Self {
        Policy { isolation, ..self }
    }

    /// The digest that pins the files in records.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The same for whoever keeps it.
    pub fn shared_hash(&self) -> SharedText {
        self.hash.clone()
    }

    /// What is allowed but probably not meant.
    pub fn warnings(&self) -> &[DocumentError] {
        &self.warnings
    }

    /// The files as they are written.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// How many calls may run at once in this mode; `None` means any number.
    pub fn max_concurrent_tasks(&self, mode: Mode) -> Option<u32> {
        self.modes.get(mode).max_concurrent.as_ref().map(|(most, _)| *most)
    }

    /// What one call of a tool costs a worker session.
    pub fn cost_of(&self, tool: &ToolName) -> f64 {
        self.tools.get(tool).map_or(0.0, |rules| rules.cost)
    }

    /// How long a human is waited for.
    pub fn approval_timeout(&self) -> Duration {
        self.safety.approval_timeout
    }
}

/// The rules of all files, before it is known whether any of them has errors.
struct Checked {
    modes: PerMode<ModeRules>,
    transitions: Transitions,
    categories: BTreeMap<Category, CategoryRules>,
    tools: BTreeMap<ToolName, ToolRules>,
    safety: SafetyRules,
    known_categories: Vec<Category>,
    errors: Vec<DocumentError>,
    warnings: Vec<DocumentError>,
}

impl Checked {
    fn of(files: &Files, around: &Surroundings) -> Result<Self, PolicyError> {
        let mut in_tools = Inspection::of(&files.documents.tools);
        let (known_categories, categories) = check_categories(&files.tools, &mut in_tools);
        let (mut modes, built_in) = built_in_modes(&known_categories)?;
        let mut in_modes = Inspection::of(&files.documents.modes);
        mode_rules::check(&files.modes, &known_categories, &mut modes, &mut in_modes);
        let transitions = transitions::check(&files.modes, &mut in_modes).unwrap_or(built_in);
        let tools = check_tool_entries(&files.tools, &known_categories, around, &mut in_tools);
        let mut in_safety = Inspection::of(&files.documents.safety);
        let document = &files.documents.safety;
        let safety = safety_rules::check(&files.safety, document, &known_categories, &mut in_safety);
        let inspections = [in_modes, in_tools, in_safety];
        let (errors, warnings): (Vec<_>, Vec<_>) =
            inspections.into_iter().map(|i| (i.errors, i.warnings)).unzip();
        let (errors, warnings) = (errors.concat(), warnings.concat());
        Ok(Checked { modes, transitions, categories, tools, safety, known_categories, errors, warnings })
    }

    fn into_policy(self, files: Files, floor: Floor) -> Result<Policy, PolicyError> {
        if !self.errors.is_empty() {
            return Err(PolicyError::new(self.errors));
        }
        let hash = files.documents.hash().into();
        let Checked { modes, transitions, categories, tools, safety, known_categories, warnings, .. } = self;
        Ok(Policy {
            modes,
            transitions: Arc::new(transitions),
            categories,
            tools,
            safety,
            floor: Arc::new(floor),
            known_categories,
            files,
            warnings,
            hash,
            isolation: None,
            granted: Arc::default(),
        })
    }
}

impl Documents {
    pub(crate) fn get(&self, file: PolicyFile) -> &Document {
        match file {
            PolicyFile::Modes => &self.modes,
            PolicyFile::Tools => &self.tools,
            PolicyFile::Safety => &self.safety,
        }
    }

    /// The same files with another text for one of them.
    pub(crate) fn with(&self, file: PolicyFile, text: &str) -> Result<Documents, PolicyError> {
        let document = Document::from_text(self.get(file).name(), text);
        let document = document.map_err(|error| PolicyError::new(vec![error]))?;
        let mut documents = self.clone();
        *match file {
            PolicyFile::Modes => &mut documents.modes,
            PolicyFile::Tools => &mut documents.tools,
            PolicyFile::Safety => &mut documents.safety,
        } = document;
        Ok(documents)
    }

    /// Over the texts and where each begins, so that no two sets of files share a digest.
    fn hash(&self) -> String {
        let mut bytes = Vec::new();
        for document in [&self.modes, &self.tools, &self.safety] {
            bytes.extend_from_slice(&(document.text().len() as u64).to_be_bytes());
            bytes.extend_from_slice(document.text().as_bytes());
        }
        canonical::sha256_hex(&bytes)
    }
}

fn embedded(name: &str, text: &str) -> Result<Document, DocumentError> {
    Document::from_text(&format!("config/governance/{name}"), text)
}

fn embedded_modes() -> Result<Document, DocumentError> {
    embedded("modes.yaml", MODES)
}

/// What holds in a mode that the file does not list: a file that forgets LOCKDOWN must not open it.
fn built_in_modes(known: &[Category]) -> Result<(PerMode<ModeRules>, Transitions), PolicyError> {
    let alone = |error: DocumentError| PolicyError::new(vec![error]);
    let document = embedded_modes().map_err(alone)?;
    let file: ModesFile = document.parse().map_err(alone)?;
    let mut rules = PerMode::default();
    let mut inspection = Inspection::of(&document);
    mode_rules::check(&file, known, &mut rules, &mut inspection);
    let transitions = transitions::check(&file, &mut inspection).unwrap_or_default();
    if inspection.errors.is_empty() {
        Ok((rules, transitions))
    } else {
        Err(PolicyError::new(inspection.errors))
    }
}

fn check_categories(
    file: &ToolsFile,
    inspection: &mut Inspection<'_>,
) -> (Vec<Category>, BTreeMap<Category, CategoryRules>) {
    let mut known =
        vec![Category::READ_ONLY, Category::SYSTEM_WRITE, Category::NETWORK, Category::SELF_CHECK];
    let mut rules = BTreeMap::new();
    for (key, entry) in file.tool_categories.iter() {
        match Category::try_from(key.value.clone()) {
            Ok(category) => {
                rules.insert(category.clone(), tool_rules::check_category(key, entry, inspection));
                if !known.contains(&category) {
                    known.push(category);
                }
            }
            Err(error) => inspection.error(key, &error.to_string(), None),
        }
    }
    (known, rules)
}

fn check_tool_entries(
    file: &ToolsFile,
    known: &[Category],
    around: &Surroundings,
    inspection: &mut Inspection<'_>,
) -> BTreeMap<ToolName, ToolRules> {
    let mut tools = BTreeMap::new();
    for (key, entry) in file.tools.iter() {
        let name = match ToolName::new(key) {
            Ok(name) => name,
            Err(error) => {
                inspection.error(key, &error.to_string(), None);
                continue;
            }
        };
        let Some(rules) = tool_rules::check_tool(key, entry, known, around, inspection) else { continue };
        if tools.insert(name, rules).is_some() {
            let message = format!("`{}` is stated twice: names are compared without case", key.value);
            inspection.error(key, &message, Some("merge the two or remove one".to_owned()));
        }
    }
    tools
}

/// Three results as one, with every error kept.
fn all<A, B, C>(
    a: Result<A, DocumentError>,
    b: Result<B, DocumentError>,
    c: Result<C, DocumentError>,
) -> Result<(A, B, C), PolicyError> {
    match (a, b, c) {
        (Ok(a), Ok(b), Ok(c)) => Ok((a, b, c)),
        (a, b, c) => Err(PolicyError::new([a.err(), b.err(), c.err()].into_iter().flatten().collect())),
    }
}

#[cfg(test)]
mod tests;
