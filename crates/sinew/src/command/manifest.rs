//! `sinew manifest`: checks and tests tools defined in YAML files before they are used.

mod examples;
mod import;
mod new_file;

use std::path::{Path, PathBuf};

use connectors::FunctionExample;
use knowledge::{FunctionKind, KnowledgeError};
use manifest::{Diagnostic, DiagnosticSeverity, ManifestLoadResult};
use registry::ToolRegistry;
use sandbox::Sandbox;
use serde_json::{Value, json};
use server::settings::Settings;
use strict_yaml::{Document, DocumentError};

use crate::cli::{JsonArgs, ManifestCommand};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible, paint, print_result_line, print_warning,
};
use crate::{compose, function_workers, manifests};

pub(crate) fn run(command: &ManifestCommand) -> Result<ExitKind, CommandError> {
    match command {
        ManifestCommand::Check { paths, output } => {
            let mut loaded = load(paths)?;
            let failed = run_functions(&loaded)?;
            loaded.diagnostics.extend(failed);
            show_diagnostics(&loaded, *output)
        }
        ManifestCommand::Test { paths, output } => {
            let loaded = load(paths)?;
            // A manifest with an error in a part that only informs loads without that part.
            if loaded.manifests.len() < loaded.file_count {
                return show_diagnostics(&loaded, *output);
            }
            for error in loaded.diagnostics.iter().filter(|one| one.severity() == DiagnosticSeverity::Error) {
                print_warning(escape_invisible(&error.to_string()));
            }
            examples::run(&CommandContext::from_environment()?, &loaded.manifests, *output)
        }
        ManifestCommand::Import { name, network, read_only, command } => {
            let (network, read_only) = (*network, *read_only);
            let options = import::ImportOptions { name, network, read_only, command };
            import::run(&CommandContext::from_environment()?, &options)
        }
        ManifestCommand::New { name, kind } => {
            new_file::run(&CommandContext::from_environment()?, name, *kind)
        }
    }
}

/// Runs each function once on a success example of its own manifest, and reports those that fail.
fn run_functions(loaded: &ManifestLoadResult) -> Result<Vec<Diagnostic>, CommandError> {
    let examples = loaded
        .manifests
        .iter()
        .flat_map(|of| connectors::functions_with_examples(of).into_iter().map(move |example| (of, example)));
    let examples: Vec<_> = examples.collect();
    if examples.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(error.to_string()))?;
    let workers = function_workers::shared_workers();
    let mut failed = Vec::new();
    for (manifest, FunctionExample { function, command, input }) in examples {
        let result = match function.kind {
            FunctionKind::Validator => {
                runtime.block_on(workers.validate(&function, &input.to_string())).map(drop)
            }
            FunctionKind::Helper | FunctionKind::Processor => {
                runtime.block_on(workers.compute(&function, &input)).map(drop)
            }
        };
        // A helper that returns nothing for the arguments of a command has not failed.
        if let Err(error) = result.or_else(|error| match error {
            KnowledgeError::InvalidResult { kind: FunctionKind::Helper, .. } => Ok(()),
            error => Err(error),
        }) {
            failed.push(manifest.failed_function(&function.id, &command, &error.to_string()));
        }
    }
    runtime.shutdown_background();
    Ok(failed)
}

/// Loads the manifests of these files and folders, with all diagnostics.
pub(super) fn load(paths: &[PathBuf]) -> Result<ManifestLoadResult, CommandError> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(manifests::manifest_files(path)?);
    }
    load_files(&files, &Document::read)
}

/// Loads these files with `read`.
pub(super) fn load_files(
    files: &[PathBuf],
    read: &(dyn Fn(&Path) -> Result<Document, DocumentError> + Sync),
) -> Result<ManifestLoadResult, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(error);
    let mut registry = ToolRegistry::new();
    let (sandbox, web) = (Sandbox::of_this_process(), compose::shared_web(&Settings::default())?);
    // Only the names of the built-in tools are used, so default settings are enough.
    let undo = compose::undo_store(&CommandContext::from_environment()?, &Settings::default());
    toolbox::register(&mut registry, sandbox, toolbox::Internals::of_this_process(), web, &undo)
        .map_err(|error| failed(&error))?;
    let known = |name: &str| registry.get(name).is_some();
    let mut loaded = function_workers::with_parser(|syntax| manifest::load_all(files, read, syntax, &known))
        .map_err(|error| failed(&error))?;
    let dropped = connectors::find_unregistrable(&loaded.manifests).into_iter();
    let dropped: Vec<Diagnostic> =
        dropped.map(|(of, skipped)| of.unusable_command(&skipped.name, &skipped.reason)).collect();
    loaded.diagnostics.extend(dropped);
    Ok(loaded)
}

fn show_diagnostics(loaded: &ManifestLoadResult, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let is_error = |one: &&Diagnostic| one.severity() == DiagnosticSeverity::Error;
    let errors = loaded.diagnostics.iter().filter(is_error).count();
    let exit = if errors == 0 { ExitKind::Done } else { ExitKind::BadConfiguration };
    if output.json {
        let diagnostics: Vec<Value> = loaded.diagnostics.iter().map(Diagnostic::to_json).collect();
        let manifests: Vec<Value> = loaded
            .manifests
            .iter()
            .map(|one| {
                let tools: Vec<String> = one.tools().map(|(_, tool)| tool.name().to_string()).collect();
                json!({"file": one.path(), "id": one.id(), "type": one.kind().as_str(), "version": one.version(),
                    "schema_version": one.schema_version().as_str(), "tools": tools})
            })
            .collect();
        render::print_json(json!({"ok": exit == ExitKind::Done, "manifests": manifests,
            "diagnostics": diagnostics}))?;
        return Ok(exit);
    }
    for one in &loaded.diagnostics {
        let style = if one.severity() == DiagnosticSeverity::Error { ERROR_STYLE } else { WARNING_STYLE };
        let word = format!("{}[{}]:", one.severity().as_str(), one.code.as_str());
        print_result_line(format!("{} {}\n", paint(style, word), escape_invisible(&one.error.to_string())))?;
    }
    let counted = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let counts = format!(
        "{} can be used; {}, {}",
        counted(loaded.manifests.len(), "manifest"),
        counted(errors, "error"),
        counted(loaded.diagnostics.len() - errors, "warning")
    );
    print_result_line(paint(if errors == 0 { SUCCESS_STYLE } else { ERROR_STYLE }, counts))?;
    Ok(exit)
}
