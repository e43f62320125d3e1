//! The layer of a daemon, and how it comes by its configuration: what was accepted holds until a human accepts more,
//! over a restart too.

use std::sync::Arc;

use connectors::Taking;
use execution::{Configuration, ToolExecutionLayer, World, loosens};
use ledger::{Filter, Ledger, Recovery};
use server::{ConfigWatch, Following, Fresh, Held, ReloadMode, Settings, Source};

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
    let held = match (&snapshot, is_accepted) {
        // Nobody has asked yet what servers have come up with since.
        (Ok(_), true) if configuration != Configuration::First => Held::AsRead,
        _ => Held::Otherwise,
    };
    match snapshot {
        // Not accepted yet. What is was kept before, or is kept by the first reload that has nothing to ask.
        _ if !is_accepted || is_kept => {}
        Ok(snapshot) => keep(setting, &snapshot),
        Err(why) => tracing::warn!(why, "what holds now is not kept for the next start"),
    }
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
        let once_held = Box::new(move || keep(&setting, &snapshot));
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

/// A copy that cannot be written is no reason to stop: the next start then compares with an older one.
fn keep(setting: &Setting, snapshot: &Snapshot) {
    if let Err(error) = setting.keeper().keep(setting.home(), snapshot) {
        tracing::warn!(%error, "what was accepted cannot be kept for the next start");
    }
}
