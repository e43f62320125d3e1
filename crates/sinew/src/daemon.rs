//! Starts a daemon and loads its configuration. The accepted configuration stays in force, also over a
//! restart, until an operator accepts a change that permits more.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use connectors::PinVersion;
use execution::reload::loosens;
use execution::{ConfigSnapshot, StartConfiguration, ToolExecutionLayer};
use ledger::{Ledger, LedgerRecovery, RecordFilter};
use server::settings::{ReloadMode, Settings};
use server::{ConfigLoader, ConfigWatch, InitialConfigState, LoadedConfig, ReloadInputs, SinewHome};

use crate::accepted_config::{self, AcceptedComparison, ConfigFiles};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;
use crate::terminal::print_warning;

/// Attempts to read files that change while they are being read.
const MAX_READ_ATTEMPTS: usize = 3;

/// Daemon that is ready to serve.
pub(crate) struct PreparedDaemon {
    pub(crate) layer: Arc<ToolExecutionLayer>,
    /// Settings in force.
    pub(crate) settings: Settings,
    /// Inputs for reloading the configuration.
    pub(crate) reload_inputs: ReloadInputs,
}

/// Result of one read of the configuration files.
struct LoadedFiles {
    snapshot: ConfigSnapshot,
    settings: Settings,
    /// File contents, or the reason why they are not known.
    files: Result<ConfigFiles, String>,
}

/// Prepares a daemon. Its start is recorded in the ledger before it serves.
pub(crate) fn prepare(context: &CommandContext) -> Result<PreparedDaemon, CommandError> {
    // Before the first read, so that every later change is reported.
    let watch = ConfigWatch::new(context.home().watched_dirs());
    let files = read_config(context, PinVersion::Newest)?;
    let (ledger, recovery) = compose::open_ledger(context, &files.settings)?;
    let first = is_first_start(&ledger, &recovery);
    let known = accepted_config::compare_with_accepted(
        context.home(),
        |bytes| ledger.keyed_digest(bytes),
        files.files.as_ref().ok(),
    );
    let is_kept = matches!(known, AcceptedComparison::Identical);
    let kept = match known {
        // Identical files give an identical snapshot, so nothing can be looser.
        AcceptedComparison::Identical => Ok(None),
        AcceptedComparison::Differs(copy) => {
            let copy = context.with_config_copy(&copy);
            // An error that passes says nothing about the copy, whose seal is valid.
            read_copy(&copy).or_else(|_| read_copy(&copy)).map(Some)
        }
        AcceptedComparison::Unusable(why) => Err(Some(why)),
        // The files may permit more than the copy does, so an error that may pass must not apply them.
        AcceptedComparison::Unreadable(error) => {
            return Err(accepted_config::unreadable_error(context.home(), &error));
        }
        AcceptedComparison::Missing => Err(None),
    };
    let (files, configuration) = match kept {
        Ok(Some((config_snapshot, settings))) if is_looser(&settings, &config_snapshot, &files) => {
            let settings = Settings { reload: settings.reload, ..files.settings };
            (LoadedFiles { snapshot: config_snapshot, settings, ..files }, StartConfiguration::Waiting)
        }
        Ok(_) => (files, StartConfiguration::Applied),
        // The operator is not asked at a first start, so newer definitions of MCP servers are not accepted.
        Err(None) if first => (read_config(context, PinVersion::Accepted)?, StartConfiguration::First),
        Err(why) => {
            warn_of_unknown(why.as_deref());
            let files = read_config(context, PinVersion::Accepted)?;
            let snapshot = without_manifests(files.snapshot);
            (LoadedFiles { snapshot, ..files }, StartConfiguration::Unknown)
        }
    };
    let LoadedFiles { snapshot: config_snapshot, settings, files: snapshot } = files;
    let is_accepted = !matches!(configuration, StartConfiguration::Waiting | StartConfiguration::Unknown);
    let layer = compose::layer_on(context, (Arc::clone(&ledger), recovery), config_snapshot)?;
    compose::recover_interrupted(context, &settings)?;
    layer.announce_start(configuration).map_err(CommandError::configuration)?;
    let is_held = match snapshot {
        // Not accepted yet. The copy is the earlier one, or the first reload without a question writes it.
        _ if !is_accepted => false,
        Ok(_) if is_kept => true,
        Ok(snapshot) => store_accepted(context, &snapshot),
        Err(why) => {
            tracing::warn!(why, "the current configuration is not stored for the next start");
            false
        }
    };
    // At a first start, newer definitions of MCP servers have not been compared yet.
    let is_held = is_held && configuration != StartConfiguration::First;
    let is_reported = watch_covers_all(&context.home().watched_dirs(), &unread_dirs(context.home()));
    let held =
        if is_held && is_reported { InitialConfigState::MatchesFiles } else { InitialConfigState::MayDiffer };
    let following = ReloadInputs { loader: config_loader(context.clone()), watch, initial: held };
    Ok(PreparedDaemon { layer, settings, reload_inputs: following })
}

/// Returns true if no daemon has served here before. Calls without a daemon leave records too, but accept
/// nothing.
fn is_first_start(ledger: &Ledger, recovery: &LedgerRecovery) -> bool {
    if recovery.first_start {
        return true;
    }
    let is_whole = recovery.missing.is_none() && recovery.damage.is_empty() && recovery.torn.is_empty();
    let has = |filter: RecordFilter| {
        ledger.query(&RecordFilter { limit: Some(1), ..filter }).map(|records| !records.is_empty())
    };
    // If the first records were removed by age, the record of a start may have been among them.
    let from_the_beginning = has(RecordFilter { before_seq: Some(2), ..RecordFilter::default() });
    let started = has(RecordFilter { kind: Some("start".to_owned()), ..RecordFilter::default() });
    is_whole && matches!((from_the_beginning, started), (Ok(true), Ok(false)))
}

/// Returns true if the files permit more than the accepted configuration and the settings require approval
/// for that.
fn is_looser(accepted: &Settings, config_snapshot: &ConfigSnapshot, files: &LoadedFiles) -> bool {
    accepted.reload == ReloadMode::Ask
        && (files.settings.reload == ReloadMode::Auto || loosens(config_snapshot, &files.snapshot))
}

/// Loads the accepted copy. The error is the reason why it cannot be loaded.
fn read_copy(copy: &CommandContext) -> Result<(ConfigSnapshot, Settings), Option<String>> {
    let read = || {
        let settings = copy.settings()?;
        Ok((compose::config_snapshot_with_pins(copy, &settings, PinVersion::Accepted)?, settings))
    };
    read().map_err(|problem: CommandError| Some(problem.message))
}

/// Removes the tools of manifests, which may be new to the operator; they wait for approval as on a reload.
/// This also applies if the settings do not require approval, because it is unknown whether that setting was
/// accepted.
pub(crate) fn without_manifests(mut snapshot: ConfigSnapshot) -> ConfigSnapshot {
    snapshot.registry.retain(|tool| tool.origin().is_none());
    snapshot.keys.clear();
    snapshot
}

/// Warns that it is unknown which configuration was accepted.
pub(crate) fn warn_of_unknown(why: Option<&str>) {
    let why = why.unwrap_or("there is no copy of it");
    tracing::warn!(
        why,
        "the accepted configuration is unknown: policy files apply as they are, manifests wait"
    );
    print_warning(format!(
        "warning: the accepted configuration is unknown ({why}): the policy files apply as they are, and \
             the tools of manifests wait for `sinew reload --accept`"
    ));
}

/// Returns the loader that the daemon calls on a reload.
fn config_loader(context: CommandContext) -> ConfigLoader {
    Arc::new(move || {
        let read = read_config(&context, PinVersion::Newest);
        let LoadedFiles { snapshot: config_snapshot, settings, files: snapshot } =
            read.map_err(|problem| match problem.hint {
                Some(hint) => format!("{} ({hint})", problem.message),
                None => problem.message,
            })?;
        // Without a copy, the next start would revert to the earlier configuration.
        let snapshot = snapshot
            .map_err(|why| format!("the configuration cannot be stored for the next start: {why}"))?;
        let context = context.clone();
        let on_applied = Box::new(move || _ = store_accepted(&context, &snapshot));
        Ok(LoadedConfig { snapshot: config_snapshot, settings, on_applied })
    })
}

/// Reads the configuration between two scans of its files. If both scans are equal, they show what was
/// loaded.
fn read_config(context: &CommandContext, taking: PinVersion) -> Result<LoadedFiles, CommandError> {
    let mut attempt = 1;
    loop {
        let before = scan_files(context, taking);
        let settings = context.settings()?;
        let config_snapshot = compose::config_snapshot_with_pins(context, &settings, taking)?;
        let snapshot = scan_files(context, taking);
        if before == snapshot {
            let snapshot = snapshot.map(|snapshot| snapshot.with_surroundings(&config_snapshot));
            return Ok(LoadedFiles { snapshot: config_snapshot, settings, files: snapshot });
        }
        if attempt == MAX_READ_ATTEMPTS {
            let snapshot = Err("its files change while they are read".to_owned());
            return Ok(LoadedFiles { snapshot: config_snapshot, settings, files: snapshot });
        }
        attempt += 1;
    }
}

fn scan_files(context: &CommandContext, taking: PinVersion) -> Result<ConfigFiles, String> {
    ConfigFiles::read_current(context.home(), taking).map_err(|error| error.to_string())
}

/// Returns folders inside the configuration folder that do not affect decisions: keys, and schemas for
/// editors.
fn unread_dirs(home: &SinewHome) -> [PathBuf; 3] {
    let config = home.config_dir();
    [accepted_config::keys_dir(home), config.join("governance/schema"), config.join("hosts/schema")]
}

/// Returns true if a watch of these folders reports every change. A watch does not see through symbolic links
/// or into subfolders that are not listed. Returns false if a folder cannot be read.
fn watch_covers_all(folders: &[PathBuf], unread: &[PathBuf]) -> bool {
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

/// Stores the accepted configuration and returns true on success. A failure is not fatal: the next start then
/// compares with the earlier copy.
fn store_accepted(context: &CommandContext, snapshot: &ConfigFiles) -> bool {
    let kept = context.accepted_writer().store(context.home(), snapshot);
    if let Err(error) = &kept {
        tracing::warn!(%error, "the accepted configuration cannot be stored for the next start");
    }
    kept.is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_subfolders_are_outside_a_watch() {
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
        let sees = || watch_covers_all(&folders, std::slice::from_ref(&keys));
        assert!(sees(), "files in the folders, a missing folder, and a folder that is not read");
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
