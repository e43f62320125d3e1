//! `sinew manifest`: checks and tests tools defined in YAML files before they are used.

mod examples;

use std::path::PathBuf;

use manifest::{Diagnostic, Loaded, Severity};
use registry::ToolRegistry;
use sandbox::Sandbox;
use serde_json::{Value, json};
use server::Settings;
use strict_yaml::Document;

use crate::cli::{JsonArgs, ManifestCommand};
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, paint, say, visible};
use crate::{compose, functions, manifests};

pub(crate) fn run(command: &ManifestCommand) -> Result<Exit, Problem> {
    match command {
        ManifestCommand::Check { paths, output } => show(&load(paths)?, *output),
        ManifestCommand::Test { paths, output } => {
            let loaded = load(paths)?;
            match loaded.diagnostics.iter().any(|one| one.severity() == Severity::Error) {
                true => show(&loaded, *output),
                false => examples::run(&Setting::find()?, &loaded.manifests, *output),
            }
        }
    }
}

/// Loads the manifests of these files and folders, with all diagnostics.
pub(super) fn load(paths: &[PathBuf]) -> Result<Loaded, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::failed(error);
    let mut registry = ToolRegistry::new();
    let (sandbox, web) = (Sandbox::of_this_process(), compose::web(&Settings::default())?);
    // Only the names of the built-in tools are used, so default settings are enough.
    let undo = compose::undo(&Setting::find()?, &Settings::default());
    toolbox::register(&mut registry, sandbox, toolbox::Internals::of_this_process(), web, &undo)
        .map_err(|error| failed(&error))?;
    let mut files = Vec::new();
    for path in paths {
        files.extend(manifests::files_of(path)?);
    }
    let known = |name: &str| registry.get(name).is_some();
    let mut loaded =
        functions::with_parser(|syntax| manifest::load_all(&files, &Document::read, syntax, &known))
            .map_err(|error| failed(&error))?;
    let dropped = connectors::left_out(&loaded.manifests).into_iter();
    let dropped: Vec<Diagnostic> =
        dropped.map(|(of, skipped)| of.unusable(&skipped.name, &skipped.why)).collect();
    loaded.diagnostics.extend(dropped);
    Ok(loaded)
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
