//! Checks the tool names in the policy files against the registry: a rule for a tool that does not exist
//! applies to nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use guardrail::{InputSchema, KnownTool};
use strict_yaml::{DocumentError, Located};
use tool::text::nearest_word;
use tool::{Category, ToolDefinition};

use crate::common_paths;
use crate::confinement::SYSTEM_FOLDERS;
use crate::dry_run::dry_run_workspaces;
use crate::example::PolicyExample;
use crate::glob::ListedPattern;
use crate::mode_rules::{self, ApprovalScope};
use crate::policy::Policy;
use crate::problems::{FileInspection, PolicyError};
use crate::project::{ProjectRules, UnknownToolNames};
use crate::situation::{Workspace, WorkspaceAccess, Workspaces};
use crate::tool_rules::ResultCacheRule;
use crate::tools_file::ResultCacheScope;

impl Policy {
    /// Checks the names in the policy files against these tools. An unknown name is a warning, since the tool
    /// may be added later; a misspelling or an alias of a known tool is an error. An example with another
    /// verdict than expected is an error too.
    pub fn check_tools<'a>(
        &self,
        definitions: impl IntoIterator<Item = &'a ToolDefinition>,
    ) -> Result<Vec<DocumentError>, PolicyError> {
        let definitions: Vec<&ToolDefinition> = definitions.into_iter().collect();
        let mut tools = FileInspection::new(&self.files().documents.tools);
        for (key, _) in self.files().tools.tools.iter() {
            check_name(key, &definitions, &mut tools);
            let named = key.to_ascii_lowercase();
            if let Some(definition) = definitions.iter().find(|tool| tool.name().as_str() == named) {
                self.run_examples(definition, &mut tools);
                tools.warnings.extend(self.not_enforced_by_sandbox(definition));
                tools.errors.extend(self.uncacheable(definition));
            }
        }
        let mut modes = FileInspection::new(&self.files().documents.modes);
        for (_, entry) in self.files().modes.modes.iter() {
            for word in &entry.require_approval_for {
                self.check_approval_word(word, &definitions, &mut modes);
            }
        }
        let errors: Vec<_> = modes.errors.into_iter().chain(tools.errors).collect();
        let warnings = modes.warnings.into_iter().chain(tools.warnings).collect();
        if errors.is_empty() { Ok(warnings) } else { Err(PolicyError::new(errors)) }
    }

    /// Runs the examples of a project policy. Relative paths in them start at the project.
    pub(crate) fn check_project_examples(
        &self,
        project: &ProjectRules,
        definitions: &[&ToolDefinition],
        names: UnknownToolNames,
    ) -> Result<(), PolicyError> {
        let mut inspection = FileInspection::new(&project.document);
        let root = project.root().to_string_lossy();
        let here = Workspaces::new(vec![Workspace::hypothetical(&root, WorkspaceAccess::ReadWrite)]);
        for (name, rules) in project.tools() {
            match definitions.iter().find(|tool| tool.name() == name) {
                Some(definition) => {
                    self.run_example_list(definition, &rules.examples, &here, &mut inspection);
                }
                None if names == UnknownToolNames::Refuse => {
                    let near = nearest_word(name.as_str(), tool_names(definitions));
                    let fix = near.map(|near| format!("did you mean `{near}`?"));
                    let at = Located { value: (), line: 1, column: 1 };
                    inspection.error(&at, &format!("no tool is called `{name}`"), fix);
                }
                None => {}
            }
        }
        if inspection.errors.is_empty() { Ok(()) } else { Err(PolicyError::new(inspection.errors)) }
    }

    /// Runs the examples beside a tool's rules. A wrong verdict keeps the policy from loading.
    fn run_examples(&self, definition: &ToolDefinition, inspection: &mut FileInspection<'_>) {
        let Some(rules) = self.tools.get(definition.name()).filter(|rules| !rules.examples.is_empty()) else {
            return;
        };
        self.run_example_list(definition, &rules.examples, &dry_run_workspaces(), inspection);
    }

    fn run_example_list(
        &self,
        definition: &ToolDefinition,
        examples: &[PolicyExample],
        workspaces: &Workspaces,
        inspection: &mut FileInspection<'_>,
    ) {
        let tool = Arc::new(definition.clone());
        let schema = InputSchema::compile(tool.input_schema());
        for example in examples {
            let tried = schema.as_ref().map_err(ToString::to_string).and_then(|schema| {
                let known = KnownTool { definition: &tool, schema };
                self.dry_run_with_schema(known, &example.arguments, example.mode, workspaces)
            });
            match tried {
                Ok(found) if found.verdict == example.expect => {}
                Ok(found) => {
                    let message =
                        format!("the example expects {}; the rules say {}", example.expect, found.summary());
                    let hint = found.refusal.and_then(|refusal| refusal.hint);
                    inspection.error(&example.location, &message, hint);
                }
                Err(reason) => {
                    let message =
                        format!("the example is not a valid call of `{}`: {reason}", definition.name());
                    inspection.error(&example.location, &message, None);
                }
            }
        }
    }

    /// Refuses `cache_seconds` for a tool that changes something, or whose programs read files that Sinew does
    /// not know: nothing would tell that its result is out of date. Refuses to share results that may depend on
    /// the caller, as those of `read_output` do.
    fn uncacheable(&self, definition: &ToolDefinition) -> Option<DocumentError> {
        let ResultCacheRule { rule, scope, .. } = self.result_cache(definition.name())?;
        let is_built_in_client = definition.origin().is_none() && *definition.category() == Category::NETWORK;
        let reason = match definition.annotations().read_only_hint {
            false => "is not read-only",
            true if definition.requires_sandbox() && !is_built_in_client => {
                "runs a program, and Sinew does not know which files it reads"
            }
            true if *scope == ResultCacheScope::All
                && !is_built_in_client
                && (definition.path_arguments().is_empty() || definition.wants_session()) =>
            {
                "may depend on the caller, so its scope cannot be `all`"
            }
            true => return None,
        };
        let message = format!("results of `{}` cannot be cached: it {reason}", definition.name());
        Some(self.error_at(rule, &message).with_suggestion("remove `cache_seconds`"))
    }

    /// Warns about forbidden patterns that apply to the arguments of a call but not to the files its program
    /// opens. The sandbox hides existing paths, but it does not search the system folders for matches of a
    /// pattern.
    fn not_enforced_by_sandbox(&self, definition: &ToolDefinition) -> Vec<DocumentError> {
        let rules = self.tools.get(definition.name()).filter(|_| definition.requires_sandbox());
        let forbidden = rules.into_iter().flat_map(|rules| common_paths::own_part(&rules.forbidden_paths));
        let is_unheld = |written: &&ListedPattern| {
            let (folder, rest) = written.pattern.literal_prefix();
            let is_systems = SYSTEM_FOLDERS.iter().any(|system| folder.starts_with(system));
            is_systems && !matches!(rest, "" | "**")
        };
        let found = forbidden.filter(is_unheld).map(|written| {
            let message = format!(
                "`{}` is not hidden from the programs of `{}`: in system folders only \
                 paths without wildcards are",
                written.text,
                definition.name()
            );
            let error = self.error_at(&written.rule, &message);
            DocumentError { suggestion: Some("list each path without wildcards".to_owned()), ..error }
        });
        found.collect()
    }

    /// Reports a word that is neither a keyword, a category nor a tool. Always an error, because it would
    /// require no approval.
    fn check_approval_word(
        &self,
        word: &Located<String>,
        tools: &[&ToolDefinition],
        modes: &mut FileInspection<'_>,
    ) {
        let ApprovalScope::Tool(name) = mode_rules::parse_approval_scope(word, &self.known_categories) else {
            return;
        };
        if tools.iter().any(|tool| tool.name().as_str() == name) {
            return;
        }
        let words = mode_rules::approval_words(&self.known_categories);
        let suggestion = match nearest_word(&name, words.chain(tool_names(tools))) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "use high_risk_tools, any_write_operation, network, all_actions, a category or a tool"
                .to_owned(),
        };
        let message =
            format!("`{}` is not a keyword, category or tool that approval can be required for", word.value);
        modes.error(word, &message, Some(suggestion));
    }
}

fn check_name(key: &Located<String>, tools: &[&ToolDefinition], inspection: &mut FileInspection<'_>) {
    let named = key.to_ascii_lowercase();
    if tools.iter().any(|tool| tool.name().as_str() == named) {
        return;
    }
    let alias_of = tools.iter().find(|tool| tool.aliases().iter().any(|alias| alias.as_str() == named));
    if let Some(tool) = alias_of {
        let message =
            format!("`{}` is an alias of `{}`, so these rules would not apply", key.value, tool.name());
        return inspection.error(key, &message, Some(format!("write `{}`", tool.name())));
    }
    let message = format!("no tool is called `{}`", key.value);
    match nearest_word(&named, tool_names(tools)) {
        Some(near) => inspection.error(key, &message, Some(format!("did you mean `{near}`?"))),
        None => inspection.warn(key, &message, Some("its rules apply once such a tool exists".to_owned())),
    }
}

/// Returns each name once: host tools may be judged under the name of a Sinew tool.
fn tool_names<'a>(tools: &[&'a ToolDefinition]) -> BTreeSet<&'a str> {
    tools.iter().map(|tool| tool.name().as_str()).collect()
}
