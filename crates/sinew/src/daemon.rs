//! The layer of a daemon, and how it comes by its configuration: what was accepted holds until a human accepts more,
//! over a restart too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use connectors::Taking;
use execution::{Configuration, ToolExecutionLayer, World, loosens};
use ledger::{Filter, Ledger, Recovery};
use server::{ConfigWatch, Following, Fresh, Held, Home, ReloadMode, Settings, Source};

use crate::accepted::{self, Kept, Snapshot};
use crate::compose;
use crate::exit::Problem;
use crate::setting::Setting;
use crate::terminal::{NOTE, paint, tell};

/// How often files that change while they are read are read again.
const ATTEMPTS: usize = 3;

/// A daemon that is ready to serve.
pub(crate) struct Daemon {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    /// Those it serves by.
    pub(crate) settings: Settings,
    /// Where it reads its configuration again, and when.
    pub(crate) following: Following,
}

/// What the files said at one moment.
struct Files {
    world: World,
    settings: Settings,
    /// The files it was, or why nobody can say.
    snapshot: Result<Snapshot, String>,
}

/// Puts a daemon together. Its start is on record before it serves.
pub(crate) fn prepare(setting: &Setting) -> Result<Daemon, Problem> {
    // Before anything of it is read: what changes from now on is told.
    let watch = ConfigWatch::on(setting.home().configuration());
    let files = read(setting, Taking::Newest)?;
    let (ledger, recovery) = compose::open_ledger(setting, &files.settings)?;
    let first = is_first(&ledger, &recovery);
    let known = accepted::kept(setting.home(), &ledger, files.snapshot.as_ref().ok());
    let is_kept = matches!(known, Kept::Same);
    let kept = match known {
        // The same files make the same world: nothing can be looser.
        Kept::Same => Ok(None),
        Kept::Copy(copy) => read_copy(&setting.reading(&copy)).map(Some),
        Kept::Unusable(why) => Err(Some(why)),
        Kept::Nothing => Err(None),
    };
    let (files, configuration) = match kept {
        Ok(Some((world, settings))) if is_looser(&settings, &world, &files) => {
            let settings = Settings { reload: settings.reload, ..files.settings };
            (Files { world, settings, ..files }, Configuration::Waiting)
        }
        Ok(_) => (files, Configuration::Taken),
        // Nobody is asked, so what servers have come up with since is not taken.
        Err(None) if first => (read(setting, Taking::Accepted)?, Configuration::First),
        Err(why) => {
            warn_of_unknown(why.as_deref());
            (without_manifests(read(setting, Taking::Accepted)?), Configuration::Unknown)
        }
    };
    let Files { world, settings, snapshot } = files;
    let is_accepted = !matches!(configuration, Configuration::Waiting | Configuration::Unknown);
    let layer = compose::layer_on(setting, (Arc::clone(&ledger), recovery), world)?;
    compose::settle(setting, &settings)?;
    layer.announce_start(configuration).map_err(Problem::configuration)?;
    let is_held = match snapshot {
        // Not accepted yet. What is was kept before, or is kept by the first reload that has nothing to ask.
        _ if !is_accepted => false,
        Ok(_) if is_kept => true,
        Ok(snapshot) => keep(setting, &snapshot),
        Err(why) => {
            tracing::warn!(why, "what holds now is not kept for the next start");
            false
        }
    };
    // Nobody has asked yet what servers have come up with since a first start.
    let is_held = is_held && configuration != Configuration::First;
    let is_told = sees_all(&setting.home().configuration(), &unread(setting.home()));
    let held = if is_held && is_told { Held::AsRead } else { Held::Otherwise };
    let following = Following { source: source(setting.clone()), watch, held };
    Ok(Daemon { layer, settings, following })
}

/// Whether no daemon has served here before. Calls that a person made without one leave records too, and accept nothing.
fn is_first(ledger: &Ledger, recovery: &Recovery) -> bool {
    if recovery.first_start {
        return true;
    }
    let is_whole = recovery.missing.is_none() && recovery.damage.is_empty() && recovery.torn.is_empty();
    let has = |filter: Filter| {
        ledger.query(&Filter { limit: Some(1), ..filter }).map(|records| !records.is_empty())
    };
    // Where the first records are gone by age, so may be that of a start.
    let from_the_beginning = has(Filter { before_seq: Some(2), ..Filter::default() });
    let started = has(Filter { kind: Some("start".to_owned()), ..Filter::default() });
    is_whole && matches!((from_the_beginning, started), (Ok(true), Ok(false)))
}

/// Whether the files open something that was not accepted, where somebody is to be asked.
fn is_looser(accepted: &Settings, world: &World, files: &Files) -> bool {
    accepted.reload == ReloadMode::Ask
        && (files.settings.reload == ReloadMode::Auto || loosens(world, &files.world))
}

/// What was accepted, as it would be today. An error says why it cannot be told.
fn read_copy(copy: &Setting) -> Result<(World, Settings), Option<String>> {
    let read = || {
        let settings = copy.settings()?;
        Ok((compose::world_taking(copy, &settings, Taking::Accepted)?, settings))
    };
    read().map_err(|problem: Problem| Some(problem.message))
}

/// What manifests add may be what nobody has seen: it waits for a human, as it would on a reload. Also where the settings say
/// that nobody is to be asked: whether anybody accepted that is not known either.
fn without_manifests(mut files: Files) -> Files {
    files.world.registry.retain(|tool| tool.origin().is_none());
    files.world.keys.clear();
    files
}

fn warn_of_unknown(why: Option<&str>) {
    let why = why.unwrap_or("there is no copy of it");
    tracing::warn!(why, "what was accepted is not known: the rules are taken as they are, manifests wait");
    tell(paint(
        NOTE,
        format!(
            "warning: what was accepted is not known ({why}): the rules are taken as they are, and the tools of manifests \
             wait for `sinew reload --accept`"
        ),
    ));
}

/// The configuration, read again.
fn source(setting: Setting) -> Source {
    Arc::new(move || {
        let read = read(&setting, Taking::Newest);
        let Files { world, settings, snapshot } = read.map_err(|problem| match problem.hint {
            Some(hint) => format!("{} ({hint})", problem.message),
            None => problem.message,
        })?;
        // The next start would go back to what was kept before, and undo what a human had seen hold.
        let snapshot = snapshot.map_err(|why| format!("it could not be kept for the next start: {why}"))?;
        let setting = setting.clone();
        let once_held = Box::new(move || _ = keep(&setting, &snapshot));
        Ok(Fresh { world, settings, once_held })
    })
}

/// Reads the configuration between two looks at its files: where both see the same, that is what was read.
fn read(setting: &Setting, taking: Taking) -> Result<Files, Problem> {
    let mut attempt = 1;
    loop {
        let before = look(setting, taking);
        let settings = setting.settings()?;
        let world = compose::world_taking(setting, &settings, taking)?;
        let snapshot = look(setting, taking);
        if before == snapshot {
            let snapshot = snapshot.map(|snapshot| snapshot.of_world(&world));
            return Ok(Files { world, settings, snapshot });
        }
        if attempt == ATTEMPTS {
            let snapshot = Err("its files change while they are read".to_owned());
            return Ok(Files { world, settings, snapshot });
        }
        attempt += 1;
    }
}

fn look(setting: &Setting, taking: Taking) -> Result<Snapshot, String> {
    Snapshot::of(setting.home(), taking).map_err(|error| error.to_string())
}

/// Folders in the configuration's of which nothing is judged by: keys, and the schemas for editors.
fn unread(home: &Home) -> [PathBuf; 3] {
    let config = home.config();
    [accepted::keys(home), config.join("governance/schema"), config.join("hosts/schema")]
}

/// Whether a watch of these folders hears of every change: it sees neither what lies behind a link nor what is deeper.
/// Where nobody can say, it does not.
fn sees_all(folders: &[PathBuf], unread: &[PathBuf]) -> bool {
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink());
    let is_seen = |entry: io::Result<fs::DirEntry>| {
        let Ok((path, kind)) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) else {
            return false;
        };
        kind.is_file() || (kind.is_dir() && (folders.contains(&path) || unread.contains(&path)))
    };
    folders.iter().all(|folder| match fs::read_dir(folder) {
        Ok(mut entries) => !is_link(folder) && entries.all(is_seen),
        Err(error) => error.kind() == io::ErrorKind::NotFound && !is_link(folder),
    })
}

/// Whether it is kept. A copy that cannot be written is no reason to stop: the next start then compares with an older one.
fn keep(setting: &Setting, snapshot: &Snapshot) -> bool {
    let kept = setting.keeper().keep(setting.home(), snapshot);
    if let Err(error) = &kept {
        tracing::warn!(%error, "what was accepted cannot be kept for the next start");
    }
    kept.is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_watch_does_not_see_behind_links_nor_below_the_folders_it_watches() {
        let home = tempfile::tempdir().unwrap();
        let [config, inner, later] =
            ["config", "config/governance", "tools"].map(|name| home.path().join(name));
        let (elsewhere, keys) = (home.path().join("elsewhere"), config.join("keys"));
        for folder in [&inner, &elsewhere, &keys] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(inner.join("tools.yaml"), "").unwrap();
        fs::write(elsewhere.join("a.yaml"), "").unwrap();
        let folders = [config, inner.clone(), later.clone()];
        let sees = || sees_all(&folders, std::slice::from_ref(&keys));
        assert!(sees(), "files in the folders, one that is not there yet, and what is no part of it");
        for (place, target) in [(inner.join("a.yaml"), elsewhere.join("a.yaml")), (later, elsewhere.clone())]
        {
            symlink(&target, &place).unwrap();
            assert!(!sees(), "{}", place.display());
            fs::remove_file(place).unwrap();
        }
        fs::create_dir(inner.join("deeper")).unwrap();
        assert!(!sees(), "a folder below");
    }
}
