//! Loads the manifests of this home, `tools/*.yaml`. A file that another user could have changed is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::{ConfiguredKey, ConfiguredKeys, Connectors, PinStore, PinVersion};
use execution::ManifestProblem;
use manifest::{DiagnosticSeverity, Manifest, ManifestLoadResult};
use outbound::{HttpGateway, KeySources};
use registry::ToolRegistry;
use sandbox::Sandbox;
use server::settings::{KeySetting, Settings};
use strict_yaml::{Document, DocumentError};

use crate::accepted_config;
use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::function_workers;
use crate::terminal::{escape_invisible, print_warning};

/// Registers the tools of manifests. A problem is printed and affects only its own manifest or tool; those that
/// keep one from being used are returned.
pub(crate) fn register(
    (context, settings): (&CommandContext, &Settings),
    gatekeeper: &HttpGateway,
    taking: PinVersion,
    registry: &mut ToolRegistry,
) -> Result<Vec<ManifestProblem>, CommandError> {
    let folder = context.home().tools_dir();
    let loaded = match folder.is_dir() {
        true => load_manifests(&counted_files(folder, settings.limits.max_manifests)?, registry)?,
        false => return Ok(Vec::new()),
    };
    let mut problems = Vec::new();
    for diagnostic in &loaded.diagnostics {
        print_warning(escape_invisible(&diagnostic.to_string()));
        if diagnostic.severity() == DiagnosticSeverity::Error {
            let DocumentError { file, line, message, .. } = diagnostic.error.clone();
            problems.push(ManifestProblem { file, line, code: diagnostic.code.as_str().to_owned(), message });
        }
    }
    let connectors = Connectors::new(
        Sandbox::of_this_process(),
        function_workers::shared_workers(),
        gatekeeper,
        context.pipeline_entry(),
    );
    // A reload of the accepted copy must find the same programs behind the tools.
    let accepted = context.home().config_copy().map(accepted_config::accepted_origins).unwrap_or_default();
    let connectors = connectors.with_accepted_origins(accepted).with_pin_store(pin_store(context, taking));
    let connectors = connectors.with_keys(host_keys(settings));
    for skipped in connectors.register(&loaded.manifests, registry) {
        let message = format!("the tool `{}` is skipped: {}", skipped.name, skipped.reason);
        print_warning(escape_invisible(&format!("warning: {message}")));
        let (file, code) = (folder.display().to_string(), "tool_skipped".to_owned());
        problems.push(ManifestProblem { file, line: 0, code, message });
    }
    Ok(problems)
}

/// Returns the manifests of a folder, unless there are more than `most`: loading takes time and memory for each.
pub(crate) fn counted_files(folder: &Path, most: usize) -> Result<Vec<PathBuf>, CommandError> {
    let files = manifest_files(folder)?;
    if files.len() <= most {
        return Ok(files);
    }
    let (folder, count) = (folder.display(), files.len());
    Err(CommandError::configuration(format!(
        "`{folder}` has {count} manifests, and at most {most} are loaded: remove some, or raise limits.max_manifests in \
         sinew.yaml"
    )))
}

/// Returns the keys of the settings. A key is read when it is needed.
pub(crate) fn host_keys(settings: &Settings) -> ConfiguredKeys {
    let key = |(name, key): (&String, &KeySetting)| {
        let (account, file, variable) = (name.clone(), key.key_file.clone(), key.key_variable.clone());
        (
            name.clone(),
            ConfiguredKey {
                recipient: key.recipient.clone(),
                places: KeySources { account, file, variable },
            },
        )
    };
    settings.keys.iter().map(key).collect()
}

/// Describes each key in full, for the operator who accepts a change.
pub(crate) fn describe_keys(settings: &Settings) -> BTreeMap<String, String> {
    let reported = |(name, key): (&String, &KeySetting)| {
        let mut places = vec![format!("the keychain item `sinew` of the account {name:?}")];
        places.extend(key.key_file.as_ref().map(|file| format!("the file {file:?}")));
        places.extend(key.key_variable.as_ref().map(|variable| format!("the variable {variable:?}")));
        (name.clone(), format!("for {}, from {}", key.recipient, places.join(" or ")))
    };
    settings.keys.iter().map(reported).collect()
}

/// Returns the store of MCP tool definitions, which adds the first definitions of a server to the accepted
/// copy.
fn pin_store(context: &CommandContext, taking: PinVersion) -> PinStore {
    let (writer, home) = (context.accepted_writer().clone(), context.home().clone());
    let seal = move |id: &str, text: &[u8]| writer.add_pins(&home, id, text);
    accepted_config::pin_store(context.home(), taking).with_sealer(Arc::new(seal))
}

fn load_manifests(files: &[PathBuf], registry: &ToolRegistry) -> Result<ManifestLoadResult, CommandError> {
    let known = |name: &str| registry.get(name).is_some();
    function_workers::with_parser(|syntax| manifest::load_all(files, &Document::read_trusted, syntax, &known))
        .map_err(CommandError::failed)
}

/// Returns the valid manifests among these files.
pub(crate) fn load_valid(files: &[PathBuf]) -> Result<Vec<Manifest>, CommandError> {
    load_manifests(files, &ToolRegistry::new()).map(|loaded| loaded.manifests)
}

/// Returns the file itself, or the manifests in a folder, sorted by name.
pub(crate) fn manifest_files(path: &Path) -> Result<Vec<PathBuf>, CommandError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: std::io::Error| {
        CommandError::configuration(format!("the folder `{}` cannot be read: {error}", path.display()))
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
