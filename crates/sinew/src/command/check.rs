//! `sinew check`: reads all configuration as the daemon does and reports every error and warning.

use ::manifest::{Diagnostic, DiagnosticSeverity, ManifestLoadResult};
use execution::host::Host;
use governance::rules::UnknownToolNames;
use governance::suggested_change::shell_word;
use governance::{Policy, Workspace, WorkspaceAccess, Workspaces};
use guardrail::{CuratedGuardrails, KnownTool};
use registry::ToolRegistry;
use sandbox::Sandbox;
use serde_json::{Value, json};
use server::settings::Settings;
use strict_yaml::{Document, DocumentError};
use tool::{Refusal, ToolDefinition};
use toolbox::Internals;

use super::manifest;
use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::host_table;
use crate::manifests;
use crate::message_limit;
use crate::render;
use crate::reserved_folders;
use crate::terminal::{
    ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible, paint, print_result_line,
};

/// Errors and warnings of a configuration. The daemon rejects a configuration with errors and applies one
/// with warnings.
#[derive(Default)]
pub(crate) struct CheckReport {
    pub(crate) errors: Vec<DocumentError>,
    pub(crate) warnings: Vec<DocumentError>,
    /// Services from the settings that the policy refuses, by name, each with its refusal.
    pub(crate) refused_services: Vec<(String, Box<Refusal>)>,
    /// Errors in manifests and project policies. A broken manifest disables only itself, and a project whose policy is
    /// broken is denied as a whole.
    pub(crate) partial_errors: Vec<DocumentError>,
}

pub(crate) fn run(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let folder = context.home().tools_dir();
    let most = context.settings().unwrap_or_default().limits.max_manifests;
    // Read as the daemon reads them: a file that other users can write is refused.
    let loaded = match folder.is_dir() {
        true => manifest::load_files(&manifests::counted_files(folder, most)?, &Document::read_trusted)?,
        false => ManifestLoadResult::default(),
    };
    let tools = loaded.manifests.iter().flat_map(|one| one.tools()).map(|(_, tool)| tool);
    let tools: Vec<&ToolDefinition> = tools.collect();
    let mut report = check_with_manifest_tools(&context, &tools, UnknownToolNames::Refuse)?;
    report.check_manifests(loaded.diagnostics);
    report.show(output)
}

/// Checks all configuration except manifests.
pub(crate) fn check_configuration(context: &CommandContext) -> Result<CheckReport, CommandError> {
    check_with_manifest_tools(context, &[], UnknownToolNames::Accept)
}

/// Like `check_configuration`, and also reports tools of manifests that can reach paths forbidden to other tools.
fn check_with_manifest_tools(
    context: &CommandContext,
    from_manifests: &[&ToolDefinition],
    names: UnknownToolNames,
) -> Result<CheckReport, CommandError> {
    let mut registry = ToolRegistry::new();
    let mut report = CheckReport::default();
    let settings = report.check_settings(context).unwrap_or_default();
    let web = match report.take_or_record("config/sinew.yaml", compose::shared_web(&settings)) {
        Some(web) => web,
        None => compose::shared_web(&Settings::default())?,
    };
    let (sandbox, internals) = (Sandbox::of_this_process(), Internals::of_this_process());
    toolbox::register(&mut registry, sandbox, internals, web, &compose::undo_store(context, &settings))
        .map_err(CommandError::failed)?;
    let hosts = host_table::load(&context.home().config_dir().join("hosts"), context.home().user_home());
    let hosts = report.take_or_record("config/hosts", hosts).unwrap_or_default();
    let folder = compose::governance_dir(context)?;
    match compose::read_policy(context)? {
        Ok(policy) => {
            let policy = policy.with_isolation(compose::detect_isolation());
            let policy =
                policy.with_write_grants(registry.all_versions().map(|tool| tool.definition().as_ref()));
            let workspaces = existing_workspaces(&settings);
            let environment = compose::policy_environment(context);
            let policy = policy.with_projects(&workspaces, &environment).and_then(|policy| {
                let definitions = registry.definitions().map(AsRef::as_ref);
                let definitions = definitions.chain(from_manifests.iter().copied());
                policy.with_project_examples(definitions, names, &environment)
            });
            let policy = policy.map_err(CommandError::configuration)?;
            let denied = policy.denied_projects().flat_map(|(_, error)| error.problems());
            report.partial_errors.extend(denied.cloned());
            report.check_policy(&policy, &registry, (&hosts, from_manifests), &workspaces);
            report.check_program_folders(&policy, &workspaces);
            report.check_services(context, &policy, &registry);
            let file = context.home().settings_file().display().to_string();
            let definitions = registry.definitions().map(AsRef::as_ref);
            report.warnings.extend(message_limit::check(&settings, &file, &policy, definitions));
        }
        Err(error) => report.errors.extend_from_slice(error.problems()),
    }
    report.check_curated_map(folder.as_deref(), &registry);
    Ok(report)
}

/// Returns the workspaces that exist. `CheckReport::check_settings` has already reported the missing ones.
pub(crate) fn existing_workspaces(settings: &Settings) -> Workspaces {
    let folders = settings.workspaces.iter();
    Workspaces::new(
        folders
            .filter_map(|one| Workspace::open(&one.path, compose::to_policy_access(one.access)).ok())
            .collect(),
    )
}

impl CheckReport {
    fn check_settings(&mut self, context: &CommandContext) -> Option<Settings> {
        let file = context.home().settings_file().display().to_string();
        let settings = self.take_or_record(&file, context.settings())?;
        for workspace in &settings.workspaces {
            let found = Workspace::open(&workspace.path, WorkspaceAccess::ReadOnly);
            let apart = |found: Workspace| {
                reserved_folders::check_workspace(context.home(), found.root(), workspace.access)
            };
            if let Err(error) = found.map_err(|error| error.to_string()).and_then(apart) {
                let path = workspace.path.display();
                let message = format!("the workspace `{path}` cannot be used: {error}");
                let fix = format!("sinew workspace remove {}", shell_word(&workspace.path.to_string_lossy()));
                let unplaced = DocumentError::for_file(&file, &message);
                self.errors.push(DocumentError { line: workspace.line, ..unplaced }.with_suggestion(fix));
            }
        }
        Some(settings)
    }

    fn check_policy(
        &mut self,
        policy: &Policy,
        registry: &ToolRegistry,
        (hosts, from_manifests): (&[Host], &[&ToolDefinition]),
        workspaces: &Workspaces,
    ) {
        let judged = hosts.iter().flat_map(|host| host.judged_definitions(policy));
        let definitions: Vec<&ToolDefinition> =
            registry.definitions().map(AsRef::as_ref).chain(judged).collect();
        self.warnings.extend_from_slice(policy.warnings());
        match policy.check_tools(definitions.iter().copied()) {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(error) => self.errors.extend_from_slice(error.problems()),
        }
        // A host's tool that is judged by the entry of a registered tool may lack the arguments that the entry is for.
        let has_own_entry = |one: &&ToolDefinition| {
            let name = one.name().as_str();
            registry.get(name).is_none_or(|known| std::ptr::eq(known.definition().as_ref(), *one))
        };
        self.warnings.extend(policy_tools::lint(policy, definitions.iter().copied().filter(has_own_entry)));
        let all = definitions.into_iter().chain(from_manifests.iter().copied());
        self.warnings.extend(policy_tools::lint_between(policy, all, workspaces));
        // Without the tools of hosts: they are judged only if the hook is installed there.
        let own = registry.definitions().map(AsRef::as_ref).chain(from_manifests.iter().copied());
        self.warnings.extend(policy_tools::lint_host_lists(policy, own));
    }

    /// Records services from the settings that the policy refuses, and warns about them.
    fn check_services(&mut self, context: &CommandContext, policy: &Policy, registry: &ToolRegistry) {
        let file = context.home().settings_file().display().to_string();
        let services = registry.all_versions().flat_map(|tool| {
            tool.executor().services().into_iter().map(move |service| (tool.definition(), service))
        });
        for (tool, service) in services {
            let Some(refusal) = policy.service_denial(tool, &service.url) else { continue };
            let (name, url, reason) = (&service.name, &service.url, &refusal.reason);
            let message = format!("`{name}` ({url}), which `{}` uses, is refused: {reason}", tool.name());
            let warning = DocumentError::for_file(&file, &message);
            self.warnings.push(DocumentError { suggestion: refusal.hint.clone(), ..warning });
            self.refused_services.push((service.name, refusal));
        }
    }

    fn check_program_folders(&mut self, policy: &Policy, workspaces: &Workspaces) {
        if let Err(error) = policy.check_program_folders(workspaces) {
            self.errors.extend_from_slice(error.problems());
        }
    }

    fn check_curated_map(&mut self, folder: Option<&std::path::Path>, registry: &ToolRegistry) {
        let loaded = match folder {
            Some(folder) => CuratedGuardrails::load(folder),
            None => CuratedGuardrails::embedded(),
        };
        let tools = registry.definitions().filter_map(|definition| registry.get(definition.name().as_str()));
        let known = tools.map(|tool| KnownTool { definition: tool.definition(), schema: tool.schema() });
        match loaded.and_then(|curated| curated.check_tools(known)) {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(error) => self.errors.extend_from_slice(error.problems()),
        }
    }

    fn check_manifests(&mut self, diagnostics: Vec<Diagnostic>) {
        for found in diagnostics {
            let severity = found.severity();
            let message = format!("{}: {}", found.code.as_str(), found.error.message);
            let place = DocumentError { message, ..found.error };
            match severity {
                DiagnosticSeverity::Error => self.partial_errors.push(place),
                DiagnosticSeverity::Warning => self.warnings.push(place),
            }
        }
    }

    /// Returns the loaded value, or records its error and returns `None`.
    fn take_or_record<T>(&mut self, file: &str, loaded: Result<T, CommandError>) -> Option<T> {
        loaded
            .map_err(|problem| {
                let error = DocumentError::for_file(file, &problem.message);
                self.errors.push(DocumentError { suggestion: problem.hint, ..error });
            })
            .ok()
    }

    fn show(self, output: JsonArgs) -> Result<ExitKind, CommandError> {
        let errors: Vec<DocumentError> = self.errors.iter().chain(&self.partial_errors).cloned().collect();
        let exit = if errors.is_empty() { ExitKind::Done } else { ExitKind::BadConfiguration };
        if output.json {
            let list = |found: &[DocumentError]| found.iter().map(error_json).collect::<Vec<Value>>();
            render::print_json(json!({"ok": exit == ExitKind::Done,
                "errors": list(&errors), "warnings": list(&self.warnings)}))?;
            return Ok(exit);
        }
        for (style, word, found) in
            [(ERROR_STYLE, "error", &errors), (WARNING_STYLE, "warning", &self.warnings)]
        {
            for one in found {
                print_result_line(format!(
                    "{} {}\n",
                    paint(style, format!("{word}:")),
                    escape_invisible(&one.to_string())
                ))?;
            }
        }
        let count =
            |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let counts = format!("{}, {}", count(errors.len(), "error"), count(self.warnings.len(), "warning"));
        print_result_line(match (self.errors.is_empty(), self.partial_errors.is_empty()) {
            (true, true) => paint(SUCCESS_STYLE, format!("the configuration can be used: {counts}")),
            (true, false) => paint(
                ERROR_STYLE,
                format!(
                    "the configuration can be used, but some manifests or project policies cannot: {counts}"
                ),
            ),
            (false, _) => paint(ERROR_STYLE, format!("the configuration cannot be used: {counts}")),
        })?;
        Ok(exit)
    }
}

fn error_json(found: &DocumentError) -> Value {
    json!({"file": found.file, "line": found.line, "column": found.column, "message": found.message,
        "suggestion": found.suggestion})
}
