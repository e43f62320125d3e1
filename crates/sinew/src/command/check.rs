//! `sinew check`: reads all configuration as the daemon does and reports every error and warning.

use ::manifest::{Diagnostic, Loaded, Severity};
use execution::Host;
use governance::{Policy, Workspace, WorkspaceAccess, Workspaces};
use guardrail::{Curated, Known};
use registry::ToolRegistry;
use sandbox::Sandbox;
use serde_json::{Value, json};
use server::Settings;
use strict_yaml::DocumentError;
use tool::ToolDefinition;
use toolbox::Internals;

use super::manifest;
use crate::cli::JsonArgs;
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::host_table;
use crate::own_folders;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, paint, say, visible};

/// Errors and warnings of a configuration. The daemon rejects a configuration with errors and applies one
/// with warnings.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) errors: Vec<DocumentError>,
    pub(crate) warnings: Vec<DocumentError>,
    /// Errors in manifests. A broken manifest disables only itself.
    manifests: Vec<DocumentError>,
}

pub(crate) fn run(output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let folder = setting.home().tools();
    let loaded = if folder.is_dir() { manifest::load(&[folder.to_owned()])? } else { Loaded::default() };
    let tools = loaded.manifests.iter().flat_map(|one| one.tools()).map(|(_, tool)| tool);
    let mut report = look_with(&setting, &tools.collect::<Vec<_>>())?;
    report.manifests(loaded.diagnostics);
    report.show(output)
}

/// Checks all configuration except manifests.
pub(crate) fn look(setting: &Setting) -> Result<Report, Problem> {
    look_with(setting, &[])
}

/// Like `look`, and compares what these tools reach with what others may not.
fn look_with(setting: &Setting, from_manifests: &[&ToolDefinition]) -> Result<Report, Problem> {
    let mut registry = ToolRegistry::new();
    let mut report = Report::default();
    let settings = report.settings(setting).unwrap_or_default();
    let web = match report.take("config/sinew.yaml", compose::web(&settings)) {
        Some(web) => web,
        None => compose::web(&Settings::default())?,
    };
    let (sandbox, internals) = (Sandbox::of_this_process(), Internals::of_this_process());
    toolbox::register(&mut registry, sandbox, internals, web, &compose::undo(setting, &settings))
        .map_err(Problem::failed)?;
    let hosts = host_table::load(&setting.home().config().join("hosts"), setting.home().user_home());
    let hosts = report.take("config/hosts", hosts).unwrap_or_default();
    let folder = compose::written_out(setting)?;
    let around = compose::surroundings(setting);
    let loaded = match &folder {
        Some(folder) => Policy::load(folder, &around),
        None => Policy::embedded(&around),
    };
    match loaded {
        Ok(policy) => {
            let policy = policy.on_machine_with(compose::isolation());
            let policy = policy.for_tools(registry.definitions().map(AsRef::as_ref));
            let workspaces = workspaces(&settings);
            report.policy(&policy, &registry, (&hosts, from_manifests), &workspaces);
            report.program_folders(&policy, &workspaces);
        }
        Err(error) => report.errors.extend_from_slice(error.problems()),
    }
    report.curated(folder.as_deref(), &registry);
    Ok(report)
}

/// Returns the workspaces that exist. `CheckReport::check_settings` has already reported the missing ones.
fn workspaces(settings: &Settings) -> Workspaces {
    let folders = settings.workspaces.iter();
    Workspaces::new(
        folders.filter_map(|one| Workspace::at(&one.path, compose::access(one.access)).ok()).collect(),
    )
}

impl Report {
    fn settings(&mut self, setting: &Setting) -> Option<Settings> {
        let file = setting.home().settings_file().display().to_string();
        let settings = self.take(&file, setting.settings())?;
        for workspace in &settings.workspaces {
            let found = Workspace::at(&workspace.path, WorkspaceAccess::ReadOnly);
            let apart =
                |found: Workspace| own_folders::refuse(setting.home(), found.root(), workspace.access);
            if let Err(error) = found.map_err(|error| error.to_string()).and_then(apart) {
                let path = workspace.path.display();
                let message = format!("the workspace `{path}` cannot be used: {error}");
                let fix = format!("sinew workspace remove '{path}'");
                let unplaced = DocumentError::unplaced(&file, &message);
                self.errors.push(DocumentError { line: workspace.line, ..unplaced }.suggest(fix));
            }
        }
        Some(settings)
    }

    fn policy(
        &mut self,
        policy: &Policy,
        registry: &ToolRegistry,
        (hosts, from_manifests): (&[Host], &[&ToolDefinition]),
        workspaces: &Workspaces,
    ) {
        let judged = hosts.iter().flat_map(Host::definitions);
        let definitions: Vec<&ToolDefinition> =
            registry.definitions().chain(judged).map(AsRef::as_ref).collect();
        self.warnings.extend_from_slice(policy.warnings());
        match policy.check_tools(definitions.iter().copied()) {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(error) => self.errors.extend_from_slice(error.problems()),
        }
        self.warnings.extend(policy_tools::lint(policy, definitions.iter().copied()));
        let all = definitions.into_iter().chain(from_manifests.iter().copied());
        self.warnings.extend(policy_tools::lint_between(policy, all, workspaces));
    }

    fn program_folders(&mut self, policy: &Policy, workspaces: &Workspaces) {
        if let Err(error) = policy.check_program_folders(workspaces) {
            self.errors.extend_from_slice(error.problems());
        }
    }

    fn curated(&mut self, folder: Option<&std::path::Path>, registry: &ToolRegistry) {
        let loaded = match folder {
            Some(folder) => Curated::load(folder),
            None => Curated::embedded(),
        };
        let tools = registry.definitions().filter_map(|definition| registry.get(definition.name().as_str()));
        let known = tools.map(|tool| Known { definition: tool.definition(), schema: tool.schema() });
        match loaded.and_then(|curated| curated.check_tools(known)) {
            Ok(warnings) => self.warnings.extend(warnings),
            Err(error) => self.errors.extend_from_slice(error.problems()),
        }
    }

    fn manifests(&mut self, diagnostics: Vec<Diagnostic>) {
        for found in diagnostics {
            let severity = found.severity();
            let message = format!("{}: {}", found.code.as_str(), found.place.message);
            let place = DocumentError { message, ..found.place };
            match severity {
                Severity::Error => self.manifests.push(place),
                Severity::Warning => self.warnings.push(place),
            }
        }
    }

    /// Returns the loaded value, or records its error and returns `None`.
    fn take<T>(&mut self, file: &str, loaded: Result<T, Problem>) -> Option<T> {
        loaded
            .map_err(|problem| {
                let error = DocumentError::unplaced(file, &problem.message);
                self.errors.push(DocumentError { suggestion: problem.hint, ..error });
            })
            .ok()
    }

    fn show(self, output: JsonArgs) -> Result<Exit, Problem> {
        let errors: Vec<DocumentError> = self.errors.iter().chain(&self.manifests).cloned().collect();
        let exit = if errors.is_empty() { Exit::Done } else { Exit::BadConfiguration };
        if output.json {
            let list = |found: &[DocumentError]| found.iter().map(told).collect::<Vec<Value>>();
            say(json!({"schema_version": 1, "ok": exit == Exit::Done,
                "errors": list(&errors), "warnings": list(&self.warnings)}))?;
            return Ok(exit);
        }
        for (style, word, found) in [(BAD, "error", &errors), (NOTE, "warning", &self.warnings)] {
            for one in found {
                say(format!("{} {}\n", paint(style, format!("{word}:")), visible(&one.to_string())))?;
            }
        }
        let count =
            |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
        let counts = format!("{}, {}", count(errors.len(), "error"), count(self.warnings.len(), "warning"));
        say(match (self.errors.is_empty(), self.manifests.is_empty()) {
            (true, true) => paint(GOOD, format!("the configuration can be used: {counts}")),
            (true, false) => {
                paint(BAD, format!("the configuration can be used, but some manifests cannot: {counts}"))
            }
            (false, _) => paint(BAD, format!("the configuration cannot be used: {counts}")),
        })?;
        Ok(exit)
    }
}

fn told(found: &DocumentError) -> Value {
    json!({"file": found.file, "line": found.line, "column": found.column, "message": found.message,
        "suggestion": found.suggestion})
}
