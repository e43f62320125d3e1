//! Checked policy that the judge reads. Built from the three policy files and their environment; any error
//! rejects all of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strict_yaml::{Document, DocumentError};
use tool::text::SharedText;
use tool::{Category, Mode, RuleRef, ToolName, canonical};

use crate::built_in_denials::{BUILT_IN_FILE_NAME, BuiltInDenials};
use crate::common_paths::CommonPaths;
use crate::glob::PathGlobs;
use crate::layers::{self, LayerDefault, UserFiles};
use crate::mode_rules::{self, ModeRules, PerMode};
use crate::modes_file::ModesFile;
use crate::policy_environment::PolicyEnvironment;
use crate::problems::{FileInspection, PolicyError};
use crate::project::ProjectRules;
use crate::safety_file::SafetyFile;
use crate::safety_rules::{self, SafetyRules};
use crate::suggested_change::PolicyFile;
use crate::tool_rules::{self, CategoryRules, ToolRules};
use crate::tools_file::{Isolation, ToolsFile};
use crate::transitions::{self, Transitions};

/// Immutable rules of one loaded policy. A reload builds a new one.
#[derive(Clone, Debug)]
pub struct Policy {
    pub(crate) modes: PerMode<ModeRules>,
    pub(crate) transitions: Arc<Transitions>,
    pub(crate) categories: BTreeMap<Category, CategoryRules>,
    pub(crate) tools: BTreeMap<ToolName, ToolRules>,
    /// Paths forbidden to every tool.
    pub(crate) common: CommonPaths,
    pub(crate) safety: SafetyRules,
    pub(crate) built_in_denials: Arc<BuiltInDenials>,
    pub(crate) known_categories: Vec<Category>,
    files: PolicyFiles,
    warnings: Vec<DocumentError>,
    pub(crate) hash: SharedText,
    /// Isolation level that the sandbox provides on this machine.
    pub(crate) isolation: Option<Isolation>,
    /// Folders that the rules grant as a whole to tools that write.
    pub(crate) granted_folders: Arc<[PathBuf]>,
    /// Policies of projects, which only tighten.
    pub(crate) projects: Arc<[ProjectRules]>,
    /// Policy that a call must pass in addition: a change that waits for the operator.
    pub(crate) stricter: Option<Arc<Policy>>,
    /// True for a policy without allowlists, by which calls are recorded.
    pub(crate) is_recording: bool,
}

/// Parsed policy files, for components that read settings which the judge does not use.
#[derive(Clone, Debug)]
pub struct PolicyFiles {
    /// `modes.yaml`.
    pub modes: ModesFile,
    /// `tools.yaml`.
    pub tools: ToolsFile,
    /// `safety.yaml`.
    pub safety: SafetyFile,
    /// Merged documents, from which the three above were parsed.
    pub(crate) documents: PolicyDocuments,
    /// The user's files, and the meaning of one that does not say what it extends.
    pub(crate) user: (UserFiles, LayerDefault),
}

#[derive(Clone, Debug)]
pub(crate) struct PolicyDocuments {
    pub(crate) modes: Document,
    pub(crate) tools: Document,
    pub(crate) safety: Document,
}

/// Policy files shipped with Sinew, by name, for `sinew init`.
pub const EMBEDDED_FILES: [(&str, &str); 3] =
    [("modes.yaml", EMBEDDED_MODES), ("tools.yaml", EMBEDDED_TOOLS), ("safety.yaml", EMBEDDED_SAFETY)];

const EMBEDDED_MODES: &str = include_str!("../../../config/governance/modes.yaml");
const EMBEDDED_TOOLS: &str = include_str!("../../../config/governance/tools.yaml");
const EMBEDDED_SAFETY: &str = include_str!("../../../config/governance/safety.yaml");

impl Policy {
    /// Loads the policy files of a folder, each over the built-in one. A file that does not exist changes
    /// nothing. Only their owner may be able to write them.
    pub fn load(folder: &Path, environment: &PolicyEnvironment) -> Result<Self, PolicyError> {
        Self::load_with(folder, LayerDefault::Extend, environment)
    }

    /// Like `load`, with the meaning of a file without the key `extends`.
    pub fn load_with(
        folder: &Path,
        default: LayerDefault,
        environment: &PolicyEnvironment,
    ) -> Result<Self, PolicyError> {
        if !folder.is_dir() {
            let missing =
                DocumentError::for_file(&folder.display().to_string(), "is not a folder of policy files");
            return Err(PolicyError::new(vec![missing.with_suggestion("`sinew init` writes one")]));
        }
        let (mut user, mut errors) = (UserFiles::default(), Vec::new());
        for file in PolicyFile::ALL {
            match Document::read_trusted_if_present(&folder.join(file.name())) {
                Ok(document) => user.set(file, document),
                Err(error) => errors.push(error),
            }
        }
        match errors.is_empty() {
            true => Self::from_user_files(user, default, environment),
            false => Err(PolicyError::new(errors)),
        }
    }

    /// Loads the policy that ships with Sinew.
    pub fn embedded(environment: &PolicyEnvironment) -> Result<Self, PolicyError> {
        Self::from_user_files(UserFiles::default(), LayerDefault::Extend, environment)
    }

    pub(crate) fn from_user_files(
        user: UserFiles,
        default: LayerDefault,
        environment: &PolicyEnvironment,
    ) -> Result<Self, PolicyError> {
        let documents = user.merge(default)?;
        let (modes, tools, safety) =
            combine_results(documents.modes.parse(), documents.tools.parse(), documents.safety.parse())?;
        let files = PolicyFiles { modes, tools, safety, documents, user: (user, default) };
        let built_in_denials = BuiltInDenials::new(&environment.protected).map_err(|error| {
            PolicyError::new(vec![DocumentError::for_file(
                BUILT_IN_FILE_NAME,
                &format!("cannot be compiled: {}", error.message),
            )])
        })?;
        let mut checked = CheckedFiles::new(&files, environment)?;
        if let (Some(document), LayerDefault::Extend) = (files.user.0.get(PolicyFile::Tools), default)
            && !layers::replaces_everything(document)
        {
            let built_in = built_in_paths(environment)?;
            checked.warnings.extend(checked.common.replacement_warning(document, &built_in));
        }
        checked.into_policy(files, built_in_denials)
    }

    /// Returns these rules with the isolation level that the sandbox provides on this machine. The default is
    /// none, which denies every call that must run sandboxed.
    pub fn with_isolation(self, isolation: Option<Isolation>) -> Self {
        Policy { isolation, ..self }
    }

    /// Returns these rules with the isolation level of another policy.
    pub fn on_the_machine_of(self, other: &Policy) -> Self {
        self.with_isolation(other.isolation)
    }

    pub(crate) fn with_project_rules(self, projects: Arc<[ProjectRules]>) -> Policy {
        if projects.is_empty() {
            return self;
        }
        let texts = projects.iter().map(|project| project.document.text());
        let hash =
            canonical::sha256_hex([&*self.hash].into_iter().chain(texts).collect::<String>().as_bytes());
        Policy { projects, hash: hash.into(), ..self }
    }

    /// Returns the text of a user's policy file, if there is one.
    pub fn user_text(&self, file: PolicyFile) -> Option<&str> {
        self.files.user.0.get(file).map(Document::text)
    }

    /// Returns a policy file merged with the built-in one.
    pub fn merged_document(&self, file: PolicyFile) -> &Document {
        self.files.documents.get(file)
    }

    /// Loads the same files with a new text for one of the user's, for the same machine and projects.
    pub fn with_user_text(
        &self,
        file: PolicyFile,
        text: &str,
        environment: &PolicyEnvironment,
    ) -> Result<Policy, PolicyError> {
        let (mut user, default) = self.files.user.clone();
        let name = user.get(file).map_or(file.name(), Document::name).to_owned();
        let document = Document::from_text(&name, text);
        user.set(file, Some(document.map_err(|error| PolicyError::new(vec![error]))?));
        let changed = Policy::from_user_files(user, default, environment)?.on_the_machine_of(self);
        Ok(changed.with_project_rules(Arc::clone(&self.projects)))
    }

    /// Returns an error at the location of a rule.
    pub fn error_at(&self, rule: &RuleRef, message: &str) -> DocumentError {
        let mut documents = PolicyFile::ALL.into_iter().map(|file| self.files.documents.get(file));
        match documents.find_map(|document| document.find_source(&rule.file)) {
            Some(document) => document.error_at(rule.line, 1, message),
            None => DocumentError { line: rule.line, ..DocumentError::for_file(&rule.file, message) },
        }
    }

    /// Returns the rules of a mode.
    pub fn mode_rules(&self, mode: Mode) -> &ModeRules {
        self.modes.get(mode)
    }

    /// Returns the rules of `safety.yaml`.
    pub fn safety_rules(&self) -> &SafetyRules {
        &self.safety
    }

    /// Returns the paths that are forbidden to every tool.
    pub fn common_paths(&self) -> &Arc<PathGlobs> {
        self.common.globs()
    }

    /// Returns the SHA-256 digest that identifies the policy files in the ledger.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the digest as shared text, for callers that keep it.
    pub fn shared_hash(&self) -> SharedText {
        self.hash.clone()
    }

    /// Returns warnings about rules that load but are probably mistakes.
    pub fn warnings(&self) -> &[DocumentError] {
        &self.warnings
    }

    /// Returns the parsed policy files.
    pub fn files(&self) -> &PolicyFiles {
        &self.files
    }
}

/// Rules and errors of all files, before `into_policy` decides whether they form a policy.
struct CheckedFiles {
    modes: PerMode<ModeRules>,
    transitions: Transitions,
    categories: BTreeMap<Category, CategoryRules>,
    tools: BTreeMap<ToolName, ToolRules>,
    common: CommonPaths,
    safety: SafetyRules,
    known_categories: Vec<Category>,
    errors: Vec<DocumentError>,
    warnings: Vec<DocumentError>,
}

impl CheckedFiles {
    fn new(files: &PolicyFiles, environment: &PolicyEnvironment) -> Result<Self, PolicyError> {
        let mut in_tools = FileInspection::new(&files.documents.tools);
        let (known_categories, categories) = check_categories(&files.tools, &mut in_tools);
        let (mut modes, built_in) = built_in_modes(&known_categories)?;
        let mut in_modes = FileInspection::new(&files.documents.modes);
        mode_rules::check(&files.modes, &known_categories, &mut modes, &mut in_modes);
        let transitions = transitions::check(&files.modes, &mut in_modes).unwrap_or(built_in);
        let common = match files.tools.forbidden_paths {
            Some(_) => CommonPaths::check(&files.tools, environment, &mut in_tools),
            None => Some(built_in_paths(environment)?),
        };
        let common = common.unwrap_or_else(CommonPaths::none);
        let tools =
            check_tool_entries(&files.tools, &known_categories, (environment, &common), &mut in_tools);
        let mut in_safety = FileInspection::new(&files.documents.safety);
        let document = &files.documents.safety;
        let safety = safety_rules::check(&files.safety, document, &known_categories, &mut in_safety);
        let inspections = [in_modes, in_tools, in_safety];
        let (errors, warnings): (Vec<_>, Vec<_>) =
            inspections.into_iter().map(|i| (i.errors, i.warnings)).unzip();
        let (errors, warnings) = (errors.concat(), warnings.concat());
        Ok(CheckedFiles {
            modes,
            transitions,
            categories,
            tools,
            common,
            safety,
            known_categories,
            errors,
            warnings,
        })
    }

    fn into_policy(
        self,
        files: PolicyFiles,
        built_in_denials: BuiltInDenials,
    ) -> Result<Policy, PolicyError> {
        if !self.errors.is_empty() {
            return Err(PolicyError::new(self.errors));
        }
        let hash = files.hash().into();
        let CheckedFiles {
            modes,
            transitions,
            categories,
            tools,
            common,
            safety,
            known_categories,
            warnings,
            ..
        } = self;
        Ok(Policy {
            modes,
            transitions: Arc::new(transitions),
            categories,
            tools,
            common,
            safety,
            built_in_denials: Arc::new(built_in_denials),
            known_categories,
            files,
            warnings,
            hash,
            isolation: None,
            granted_folders: Arc::default(),
            projects: Arc::new([]),
            stricter: None,
            is_recording: false,
        })
    }
}

impl PolicyDocuments {
    pub(crate) fn get(&self, file: PolicyFile) -> &Document {
        match file {
            PolicyFile::Modes => &self.modes,
            PolicyFile::Tools => &self.tools,
            PolicyFile::Safety => &self.safety,
        }
    }
}

impl PolicyFiles {
    /// Hashes the text of every layer with its length, so that no two sets of files share a digest.
    fn hash(&self) -> String {
        let mut bytes = Vec::new();
        let mut add = |text: &str| {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        };
        for file in PolicyFile::ALL {
            add(file.built_in_text());
            add(self.user.0.get(file).map_or("", Document::text));
        }
        add(match self.user.1 {
            LayerDefault::Extend => "extend",
            LayerDefault::Replace => "replace",
        });
        canonical::sha256_hex(&bytes)
    }
}

impl PolicyFile {
    /// Returns the text of the built-in file.
    pub(crate) fn built_in_text(self) -> &'static str {
        match self {
            PolicyFile::Modes => EMBEDDED_MODES,
            PolicyFile::Tools => EMBEDDED_TOOLS,
            PolicyFile::Safety => EMBEDDED_SAFETY,
        }
    }
}

/// Returns the built-in rules, which apply to modes that the file does not list: a file without LOCKDOWN must
/// not leave it open.
fn built_in_modes(known: &[Category]) -> Result<(PerMode<ModeRules>, Transitions), PolicyError> {
    let alone = |error: DocumentError| PolicyError::new(vec![error]);
    let document = layers::built_in_documents()?.modes;
    let file: ModesFile = document.parse().map_err(alone)?;
    let mut rules = PerMode::default();
    let mut inspection = FileInspection::new(&document);
    mode_rules::check(&file, known, &mut rules, &mut inspection);
    let transitions = transitions::check(&file, &mut inspection).unwrap_or_default();
    if inspection.errors.is_empty() {
        Ok((rules, transitions))
    } else {
        Err(PolicyError::new(inspection.errors))
    }
}

/// Returns the paths that are forbidden to every tool if the file has no such list. A file of an older
/// version must not permit them.
fn built_in_paths(environment: &PolicyEnvironment) -> Result<CommonPaths, PolicyError> {
    let alone = |error: DocumentError| PolicyError::new(vec![error]);
    let document = layers::built_in_documents()?.tools;
    let file: ToolsFile = document.parse().map_err(alone)?;
    let mut inspection = FileInspection::new(&document);
    let common = CommonPaths::check(&file, environment, &mut inspection);
    common.filter(|_| inspection.errors.is_empty()).ok_or_else(|| PolicyError::new(inspection.errors))
}

fn check_categories(
    file: &ToolsFile,
    inspection: &mut FileInspection<'_>,
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
    environment: (&PolicyEnvironment, &CommonPaths),
    inspection: &mut FileInspection<'_>,
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
        let Some(rules) = tool_rules::check_tool(key, entry, known, environment, inspection) else {
            continue;
        };
        if tools.insert(name, rules).is_some() {
            let message = format!("`{}` is defined twice: names are case-insensitive", key.value);
            inspection.error(key, &message, Some("merge the two or remove one".to_owned()));
        }
    }
    tools
}

/// Combines three results and keeps every error.
fn combine_results<A, B, C>(
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
