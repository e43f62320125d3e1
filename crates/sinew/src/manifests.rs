//! The manifests of this home: `tools/*.yaml`, read only if nobody else can have changed them, each a few tools more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::{Connectors, Taking, Upstreams};
use document::Document;
use manifest::Loaded;
use outbound::Gatekeeper;
use registry::ToolRegistry;
use sandbox::Sandbox;

use crate::accepted;
use crate::exit::{Exit, Problem};
use crate::functions;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, tell, visible};

/// Adds the tools of manifests. What is wrong with one is told, and stops only that one.
pub(crate) fn register(
    setting: &Setting,
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
    // What is read again as it was accepted must still be what was.
    let accepted = setting.home().copy().map(accepted::origins_of).unwrap_or_default();
    let connectors = connectors.accepting(accepted).pinning(upstreams(setting, taking));
    for skipped in connectors.register(&loaded.manifests, registry) {
        tell(paint(
            NOTE,
            visible(&format!("warning: the tool `{}` is left out: {}", skipped.name, skipped.why)),
        ));
    }
    Ok(())
}

/// What servers say of their tools, which counts once it is among what was accepted.
fn upstreams(setting: &Setting, taking: Taking) -> Upstreams {
    let (keeper, home) = (setting.keeper().clone(), setting.home().clone());
    let seal = move |id: &str, said: &[u8]| keeper.add(&home, id, said);
    accepted::upstreams(setting.home(), taking).sealed_by(Arc::new(seal))
}

fn load(files: &[PathBuf], registry: &ToolRegistry) -> Result<Loaded, Problem> {
    let known = |name: &str| registry.get(name).is_some();
    functions::with_parser(|syntax| manifest::load_all(files, &Document::read_trusted, syntax, &known))
        .map_err(|error| Problem::new(Exit::Failed, error.to_string()))
}

/// How many of these files the daemon would leave out.
pub(crate) fn broken(files: &[PathBuf]) -> Result<usize, Problem> {
    let loaded = load(files, &ToolRegistry::new())?;
    Ok(files.len().saturating_sub(loaded.manifests.len()))
}

/// The file itself, or the manifests in a folder, by name.
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
