//! Loads the manifests of this home, `tools/*.yaml`. A file that another user could have changed is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::{Connectors, HostKey, HostKeys, Taking, Upstreams};
use manifest::{Loaded, Manifest};
use outbound::{Gatekeeper, KeyPlaces};
use registry::ToolRegistry;
use sandbox::Sandbox;
use server::{KeySetting, Settings};
use strict_yaml::Document;

use crate::accepted;
use crate::exit::Problem;
use crate::functions;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, tell, visible};

/// Registers the tools of manifests. A problem is printed and affects only its own manifest or tool.
pub(crate) fn register(
    (setting, settings): (&Setting, &Settings),
    gatekeeper: &Gatekeeper,
    taking: Taking,
    registry: &mut ToolRegistry,
) -> Result<(), Problem> {
    let folder = setting.home().tools();
    let loaded = match folder.is_dir() {
        true => load(&files_of(folder)?, registry)?,
        false => return Ok(()),
    };
    for diagnostic in &loaded.diagnostics {
        tell(paint(NOTE, visible(&diagnostic.to_string())));
    }
    let connectors =
        Connectors::new(Sandbox::of_this_process(), functions::of_this_process(), gatekeeper, setting.road());
    // A reload of the accepted copy must find the same programs behind the tools.
    let accepted = setting.home().copy().map(accepted::origins_of).unwrap_or_default();
    let connectors = connectors.accepting(accepted).pinning(upstreams(setting, taking));
    let connectors = connectors.with_keys(keys(settings));
    for skipped in connectors.register(&loaded.manifests, registry) {
        tell(paint(
            NOTE,
            visible(&format!("warning: the tool `{}` is skipped: {}", skipped.name, skipped.why)),
        ));
    }
    Ok(())
}

/// Returns the keys of the settings. A key is read when it is needed.
pub(crate) fn keys(settings: &Settings) -> HostKeys {
    let key = |(name, key): (&String, &KeySetting)| {
        let (account, file, variable) = (name.clone(), key.key_file.clone(), key.key_variable.clone());
        (name.clone(), HostKey { host: key.host.clone(), places: KeyPlaces { account, file, variable } })
    };
    settings.keys.iter().map(key).collect()
}

/// Describes each key in full, for the operator who accepts a change.
pub(crate) fn told_keys(settings: &Settings) -> BTreeMap<String, String> {
    let told = |(name, key): (&String, &KeySetting)| {
        let mut places = vec![format!("the keychain item `sinew` of the account {name:?}")];
        places.extend(key.key_file.as_ref().map(|file| format!("the file {file:?}")));
        places.extend(key.key_variable.as_ref().map(|variable| format!("the variable {variable:?}")));
        (name.clone(), format!("for {}, from {}", key.host, places.join(" or ")))
    };
    settings.keys.iter().map(told).collect()
}

/// Returns the store of MCP tool definitions, which adds the first definitions of a server to the accepted
/// copy.
fn upstreams(setting: &Setting, taking: Taking) -> Upstreams {
    let (keeper, home) = (setting.keeper().clone(), setting.home().clone());
    let seal = move |id: &str, said: &[u8]| keeper.add(&home, id, said);
    accepted::upstreams(setting.home(), taking).sealed_by(Arc::new(seal))
}

fn load(files: &[PathBuf], registry: &ToolRegistry) -> Result<Loaded, Problem> {
    let known = |name: &str| registry.get(name).is_some();
    functions::with_parser(|syntax| manifest::load_all(files, &Document::read_trusted, syntax, &known))
        .map_err(Problem::failed)
}

/// Returns the valid manifests among these files.
pub(crate) fn usable(files: &[PathBuf]) -> Result<Vec<Manifest>, Problem> {
    load(files, &ToolRegistry::new()).map(|loaded| loaded.manifests)
}

/// Returns the file itself, or the manifests in a folder, sorted by name.
pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, Problem> {
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
