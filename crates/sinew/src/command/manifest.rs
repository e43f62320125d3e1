//! `sinew manifest`: tools from YAML files, looked at before they are used.

use std::path::{Path, PathBuf};

use document::Document;
use manifest::{Diagnostic, Loaded, Severity};
use registry::ToolRegistry;
use sandbox::Sandbox;
use serde_json::{Value, json};

use crate::cli::{JsonArgs, ManifestCommand};
use crate::exit::{Exit, Problem};
use crate::functions;
use crate::terminal::{BAD, GOOD, NOTE, paint, say, visible};

pub(crate) fn run(command: &ManifestCommand) -> Result<Exit, Problem> {
    match command {
        ManifestCommand::Check { paths, output } => show(&load(paths)?, *output),
    }
}

/// The manifests of these files and folders, with everything that is to be said about them.
fn load(paths: &[PathBuf]) -> Result<Loaded, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::new(Exit::Failed, error.to_string());
    let mut registry = ToolRegistry::new();
    let sandbox = Sandbox::of_this_process();
    toolbox::register(&mut registry, sandbox, toolbox::Internals::of_this_process())
        .map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let workers = functions::workers(sandbox);
    let syntax = |text: &str| functions::parses(&workers, runtime.handle(), text);
    let mut files = Vec::new();
    for path in paths {
        files.extend(files_of(path)?);
    }
    Ok(manifest::load_all(&files, &Document::read, &syntax, &|name| registry.get(name).is_some()))
}

/// The file itself, or the manifests in a folder, by name.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Problem> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: std::io::Error| {
        Problem::configuration(format!("the folder `{}` cannot be read: {error}", path.display()))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn show(loaded: &Loaded, output: JsonArgs) -> Result<Exit, Problem> {
    let is_error = |one: &&Diagnostic| one.severity() == Severity::Error;
    let errors = loaded.diagnostics.iter().filter(is_error).count();
    let exit = if errors == 0 { Exit::Done } else { Exit::BadConfiguration };
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
        say(json!({"schema_version": 1, "ok": exit == Exit::Done, "manifests": manifests,
            "diagnostics": diagnostics}))?;
        return Ok(exit);
    }
    for one in &loaded.diagnostics {
        let style = if one.severity() == Severity::Error { BAD } else { NOTE };
        let word = format!("{}[{}]:", one.severity().as_str(), one.code.as_str());
        say(format!("{} {}\n", paint(style, word), visible(&one.place.to_string())))?;
    }
    let counted = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let counts = format!(
        "{} can be used; {}, {}",
        counted(loaded.manifests.len(), "manifest"),
        counted(errors, "error"),
        counted(loaded.diagnostics.len() - errors, "warning")
    );
    say(paint(if errors == 0 { GOOD } else { BAD }, counts))?;
    Ok(exit)
}
