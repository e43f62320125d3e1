//! Project policy: `.sinew/policy.yaml` at the root of a workspace.
//!
//! It has the form of `tools.yaml` with the keys that restrict. A call must pass the policy of the home first,
//! and then the rules of each project that it concerns, so a project can only tighten. Its patterns without a
//! leading `/` start at the project, and its path rules apply to paths in the project only.
//!
//! `write_file.allowed_paths` is the write scope of the project: it binds every tool that has no list of its
//! own there, and the sandbox lets programs write nowhere else in the project.

mod loading;
mod mounts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use file_access::PathRequest;
use strict_yaml::layered::{LayeredKey, LayeredKind, LayeredMapping, LayeredNode};
use strict_yaml::{Document, DocumentError, Located};
use tool::text::nearest_word;
use tool::{RuleRef, ToolDefinition, ToolName};

use crate::command_entry::CommandEntry;
use crate::command_rules::RequestedCommand;
use crate::common_paths::CommonPaths;
use crate::denial_reason::DenialReason;
use crate::effective_policy::EffectivePolicy;
use crate::glob::PathGlobs;
use crate::judge::DecisionInput;
use crate::path_list::PathList;
use crate::path_rules;
use crate::pattern::PathPattern;
use crate::policy::Policy;
use crate::policy_environment::PolicyEnvironment;
use crate::problems::{FileInspection, PolicyError};
use crate::reached_path::ReachedPath;
use crate::rule_trace::TraceRecorder;
use crate::situation::Situation;
use crate::tool_rules::{self, ToolRules};
use crate::tools_file::{ToolEntry, ToolsFile};
use crate::verdict::PermitLimits;

pub use loading::UnknownToolNames;

/// Path of the file below the root of a project.
pub const PROJECT_POLICY: &str = ".sinew/policy.yaml";

/// Keys of a tool that can only restrict it.
const RESTRICTING_KEYS: [&str; 10] = [
    "allowed_paths",
    "forbidden_paths",
    "allowed_commands",
    "forbidden_commands",
    "allowed_domains",
    "requires_approval",
    "requires_approval_in_modes",
    "forbidden_in_modes",
    "max_file_size_mb",
    "examples",
];
const TOP_KEYS: [&str; 2] = ["forbidden_paths", "tools"];
const PATH_LISTS: [&str; 2] = ["allowed_paths", "forbidden_paths"];
/// Tool whose `allowed_paths` are the write scope of the project.
const WRITE_SCOPE_TOOL: &str = "write_file";

/// Compiled policy of one project.
#[derive(Clone, Debug)]
pub(crate) struct ProjectRules {
    root: PathBuf,
    tools: BTreeMap<ToolName, ToolRules>,
    /// Rules of a tool without an entry: the forbidden paths of the project.
    unlisted: ToolRules,
    /// Rules of a tool that writes and has no `allowed_paths` of its own.
    write_scope: Option<ToolRules>,
    pub(crate) document: Document,
    /// Error of a policy that does not load.
    load_error: Option<Arc<PolicyError>>,
}

impl ProjectRules {
    /// Compiles a project policy.
    pub(crate) fn compile(
        root: &Path,
        written: &Document,
        around: &PolicyEnvironment,
    ) -> Result<Self, PolicyError> {
        let alone = |error| PolicyError::new(vec![error]);
        let mut tree = LayeredNode::read(written, &["examples"]).map_err(alone)?;
        let mut errors = Vec::new();
        check_keys(&tree, &mut errors);
        start_patterns_at(root, &mut tree);
        add_tools(&mut tree);
        if !errors.is_empty() {
            return Err(PolicyError::new(errors));
        }
        let document = tree.into_document(written.name());
        let file: ToolsFile = document.parse().map_err(alone)?;
        let mut inspection = FileInspection::new(&document);
        let common = CommonPaths::check(&file, around, &mut inspection).unwrap_or_else(CommonPaths::none);
        let mut compile = |name: &str, entry: &ToolEntry| {
            let key = Located::without_position(name.to_owned());
            tool_rules::check_tool(
                &key,
                &without_default_denial(entry),
                &[],
                (around, &common),
                &mut inspection,
            )
        };
        let mut tools = BTreeMap::new();
        for (key, entry) in file.tools.iter() {
            if let (Some(rules), Ok(name)) = (compile(key, entry), ToolName::new(key)) {
                tools.insert(name, rules);
            }
        }
        let scope = file.tools.iter().find(|(key, _)| key.eq_ignore_ascii_case(WRITE_SCOPE_TOOL));
        let scope = scope.and_then(|(_, entry)| entry.allowed_paths.clone());
        let scope = scope.map(|paths| ToolEntry { allowed_paths: Some(paths), ..ToolEntry::default() });
        let write_scope = scope.and_then(|entry| compile(WRITE_SCOPE_TOOL, &entry));
        let unlisted = compile("project", &ToolEntry::default());
        match (unlisted, inspection.errors.is_empty()) {
            (Some(unlisted), true) => {
                let document = document.clone();
                Ok(ProjectRules {
                    root: root.to_owned(),
                    tools,
                    unlisted,
                    write_scope,
                    document,
                    load_error: None,
                })
            }
            _ => Err(PolicyError::new(inspection.errors)),
        }
    }

    /// Returns the root of the project.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn rules_of(&self, tool: &ToolDefinition) -> &ToolRules {
        self.tools.get(tool.name()).unwrap_or(&self.unlisted)
    }

    /// Returns the paths that the project forbids to a tool.
    pub(crate) fn forbidden_paths(&self, tool: &ToolDefinition) -> &Arc<PathGlobs> {
        &self.rules_of(tool).forbidden_paths
    }

    /// Returns the rules of a tool in the project: its entry, or the forbidden paths of the project.
    pub(crate) fn effective_policy<'a>(&'a self, home: &EffectivePolicy<'a>) -> EffectivePolicy<'a> {
        home.with_rules(self.rules_of(home.definition))
    }

    /// Returns the paths that a tool may write to in the project: its own list, else the write scope. `None` means
    /// the whole project.
    pub(crate) fn write_paths(&self, tool: &ToolDefinition) -> Option<&PathList> {
        self.rules_of(tool).allowed_paths.as_ref().or_else(|| self.write_scope())
    }

    /// Returns the paths that a tool without a list of its own may write to.
    pub(crate) fn write_scope(&self) -> Option<&PathList> {
        self.write_scope.as_ref().and_then(|rules| rules.allowed_paths.as_ref())
    }

    /// Returns the rules of the project, by tool.
    pub(crate) fn tools(&self) -> impl Iterator<Item = (&ToolName, &ToolRules)> {
        self.tools.iter()
    }

    /// Returns true if a call concerns the project: a path, its working directory or a word of its command is in
    /// it.
    fn concerns(&self, situation: &Situation<'_>, facts: &DecisionInput<'_>) -> bool {
        let base = situation.workspaces.base();
        base.is_some_and(|base| base.starts_with(&self.root))
            || facts.reached_paths.iter().any(|path| self.contains(path))
            || facts.external_targets.commands.iter().any(|command| self.is_named_by(command, base))
    }

    /// Returns true if a call that concerns the project can reach something in it. A call that only starts there, starts
    /// no program and names paths elsewhere cannot.
    fn is_entered(&self, home: &EffectivePolicy<'_>, facts: &DecisionInput<'_>) -> bool {
        let starts_programs =
            home.definition.requires_sandbox() || !facts.external_targets.commands.is_empty();
        starts_programs
            || facts.reached_paths.is_empty()
            || facts.reached_paths.iter().any(|path| self.contains(path))
    }

    /// Returns true if a word of the command, or the value of an option such as `--file=PATH`, is a path in the
    /// project. Symbolic links are not resolved; the sandbox limits what the program can change.
    fn is_named_by(&self, command: &RequestedCommand, base: Option<&Path>) -> bool {
        let RequestedCommand::Words(words) = command else { return false };
        let values =
            words.iter().flat_map(|word| [Some(word.as_str()), word.split_once('=').map(|(_, path)| path)]);
        let base = base.unwrap_or(Path::new("/"));
        values.flatten().any(|path| without_dots(&base.join(path)).starts_with(&self.root))
    }

    fn contains(&self, path: &ReachedPath) -> bool {
        // A path without a canonical name is denied by the policy of the home.
        path.name.as_ref().is_some_and(|name| name.is_in(&self.root))
    }

    /// Checks a call that the policy of the home permits, and returns the rules that require approval.
    pub(crate) fn check(
        &self,
        home: &EffectivePolicy<'_>,
        situation: &Situation<'_>,
        facts: &DecisionInput<'_>,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<Vec<RuleRef>, DenialReason> {
        if !self.concerns(situation, facts) {
            return Ok(Vec::new());
        }
        if let Some(denial) = self.load_denial() {
            return if self.is_entered(home, facts) { Err(denial) } else { Ok(Vec::new()) };
        }
        let rules = self.rules_of(home.definition);
        let project = home.with_rules(rules);
        project.refuse_forbidden_mode(situation.mode)?;
        let inside = facts.reached_paths.iter().zip(facts.path_requests);
        for (reached, request) in inside.filter(|(reached, _)| self.contains(reached)) {
            path_rules::refuse_typed(&project, request, notes)?;
            path_rules::admit_reached(&project, situation, reached, request, notes)?;
            if let Some(scope) = self.write_scope_of(rules, request) {
                path_rules::admit_reached(&home.with_rules(scope), situation, reached, request, notes)?;
            }
        }
        project.admit_external_targets(facts.external_targets, notes)?;
        path_rules::refuse_large_content(&project, facts.content_bytes, notes)?;
        let in_mode = rules.approval_modes.iter().filter(|(mode, _)| *mode == situation.mode);
        Ok(rules.approval_rule.iter().chain(in_mode.map(|(_, rule)| rule)).cloned().collect())
    }

    fn write_scope_of(&self, rules: &ToolRules, request: &PathRequest) -> Option<&ToolRules> {
        let has_own = rules.allowed_paths.is_some();
        self.write_scope.as_ref().filter(|_| request.access.is_modifying() && !has_own)
    }
}

impl Policy {
    /// Returns true if there are policies of projects.
    pub(crate) fn has_projects(&self) -> bool {
        self.conjuncts().any(|policy| !policy.projects.is_empty())
    }
}

impl EffectivePolicy<'_> {
    /// Restricts the limits of a permit by the projects that its call concerns. The judge sees the arguments of the call;
    /// the lists of hosts also bind redirects and the services that a tool chooses, and the largest file binds the result
    /// of an edit.
    pub(crate) fn within_projects(
        &self,
        mut limits: PermitLimits,
        situation: &Situation<'_>,
        facts: &DecisionInput<'_>,
    ) -> PermitLimits {
        let concerned = self.policy.projects.iter().filter(|project| project.concerns(situation, facts));
        for rules in concerned.map(|project| project.rules_of(self.definition)) {
            let project = self.with_rules(rules);
            if self.is_outbound() && rules.hosts.is_some() {
                limits.outbound.push(project.outbound());
            }
            limits.max_file_bytes = limits.max_file_bytes.into_iter().chain(project.max_file_bytes()).min();
        }
        limits
    }
}

/// Returns an entry in which an absent list of commands restricts nothing. In `tools.yaml` it means none.
fn without_default_denial(entry: &ToolEntry) -> ToolEntry {
    let any =
        || Located::without_position(vec![Located::without_position(CommandEntry::Program("*".to_owned()))]);
    let allowed_commands = entry.allowed_commands.clone().or_else(|| Some(any()));
    ToolEntry { allowed_commands, ..entry.clone() }
}

/// Removes `.` and `..` from a path by its text.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Reports keys that a project policy cannot have.
fn check_keys(root: &LayeredNode, errors: &mut Vec<DocumentError>) {
    let mut check = |node: &LayeredNode, known: &[&'static str]| {
        for (key, _) in node.entries().iter().filter(|(key, _)| !known.contains(&key.name.as_str())) {
            let error = key.origin.error(&format!("a project policy cannot have the key `{}`", key.name));
            errors.push(error.with_suggestion(match nearest_word(&key.name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it can only tighten, with {}", known.join(", ")),
            }));
        }
    };
    check(root, &TOP_KEYS);
    for (_, entry) in root.get("tools").into_iter().flat_map(LayeredNode::entries) {
        check(entry, &RESTRICTING_KEYS);
    }
}

/// Adds the key `tools` to a file that has only paths which every tool is forbidden.
fn add_tools(root: &mut LayeredNode) {
    let origin = root.origin.clone();
    let LayeredKind::Mapping(mapping) = &mut root.kind else { return };
    if !mapping.entries.iter().any(|(key, _)| key.name == "tools") {
        let none = LayeredMapping::default();
        let value = LayeredNode { origin: origin.clone(), kind: LayeredKind::Mapping(none) };
        mapping.entries.push((LayeredKey { origin, name: "tools".to_owned() }, value));
    }
}

/// Makes patterns without a leading `/` start at the project.
fn start_patterns_at(root: &Path, node: &mut LayeredNode) {
    let LayeredKind::Mapping(mapping) = &mut node.kind else { return };
    for (key, value) in &mut mapping.entries {
        match &mut value.kind {
            LayeredKind::List(items) if PATH_LISTS.contains(&key.name.as_str()) => {
                items.iter_mut().for_each(|item| start_pattern_at(root, item));
            }
            LayeredKind::Mapping(_) => start_patterns_at(root, value),
            _ => {}
        }
    }
}

fn start_pattern_at(root: &Path, item: &mut LayeredNode) {
    let Some(text) = item.text().filter(|text| !text.starts_with(['/', '$', '~'])) else { return };
    let rest = text.strip_prefix("./").unwrap_or(text);
    let text = match rest {
        "." | "" => PathPattern::literal(root),
        rest => format!("{}/{rest}", PathPattern::literal(root)),
    };
    item.kind = LayeredKind::Scalar(strict_yaml::YamlNodeKind::Text(text));
}
