//! Watches the configuration folders and reports a change once the files have settled. Reads no
//! configuration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Time without events after which a change counts as complete: an editor writes a file in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(100);
/// Longest wait for `QUIET_PERIOD`, for files that change without a pause.
const MAX_SETTLE_TIME: Duration = Duration::from_secs(2);

/// Watcher for the configuration folders, including folders that do not exist yet.
pub struct ConfigWatch {
    folders: Vec<PathBuf>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// Number of folders in `watched` for which the operating system accepted a watch.
    watch_count: usize,
    changes: mpsc::Receiver<()>,
    /// Keeps the channel open when there is no watcher; `changed` then never returns.
    _sender: mpsc::Sender<()>,
}

impl ConfigWatch {
    /// Starts watching these folders. If the operating system cannot watch one, a warning is logged, and only
    /// SIGHUP or `control/reload` reloads it.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        let (sender, changes) = mpsc::channel(1);
        let (changed, watched_folders) = (sender.clone(), folders.clone());
        let watcher = ::notify::recommended_watcher(move |event: ::notify::Result<Event>| {
            if event.is_ok_and(|event| affects_folders(&event, &watched_folders)) {
                // One pending message covers any number of events.
                let _ = changed.try_send(());
            }
        });
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "config_not_watched")).ok();
        let mut watch = ConfigWatch {
            folders,
            watcher,
            watched: BTreeSet::new(),
            watch_count: 0,
            changes,
            _sender: sender,
        };
        watch.renew_watches();
        watch
    }

    /// Returns true if every folder is watched.
    pub(crate) fn is_watching_all(&self) -> bool {
        self.watcher.is_some() && self.watched.len() == self.watch_count
    }

    /// Waits for a change and then for the files to settle.
    pub(crate) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            return std::future::pending().await;
        }
        let settling = async { while let Ok(Some(())) = timeout(QUIET_PERIOD, self.changes.recv()).await {} };
        let _ = timeout(MAX_SETTLE_TIME, settling).await;
        self.renew_watches();
    }

    /// Watches each folder, or its nearest existing ancestor.
    fn renew_watches(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let there =
            |folder: &PathBuf| folder.ancestors().find(|folder| folder.is_dir()).map(Path::to_path_buf);
        let wanted: BTreeSet<PathBuf> = self.folders.iter().filter_map(there).collect();
        // Every watch is renewed, because a folder that was replaced has the path of the one that was
        // watched.
        for folder in &self.watched {
            let _ = watcher.unwatch(folder);
        }
        self.watch_count = 0;
        for folder in &wanted {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => self.watch_count += 1,
                Err(error) => {
                    tracing::warn!(%error, folder = %folder.display(), "config_not_watched");
                }
            }
        }
        self.watched = wanted;
    }
}

/// Returns true if the event changes one of the folders or an entry in one. Read accesses do not count,
/// because the daemon itself causes them.
fn affects_folders(event: &Event, folders: &[PathBuf]) -> bool {
    let ours = |path: &PathBuf| {
        folders.iter().any(|folder| path.parent() == Some(folder) || folder.starts_with(path))
    };
    !event.kind.is_access() && (event.paths.is_empty() || event.paths.iter().any(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn changes_in_folders_created_later_are_reported() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let (config, inner) = (root.join("config"), root.join("config/governance"));
        let mut watch = ConfigWatch::new(vec![config.clone(), inner.clone()]);
        std::fs::create_dir(&config).unwrap();
        timeout(TEST_TIMEOUT, watch.changed()).await.expect("the folder was created");
        std::fs::create_dir(&inner).unwrap();
        timeout(TEST_TIMEOUT, watch.changed()).await.expect("the inner folder was created");
        std::fs::write(inner.join("tools.yaml"), "a").unwrap();
        timeout(TEST_TIMEOUT, watch.changed()).await.expect("a file was created");
        // Editors write a new file and rename it over the old one.
        std::fs::write(inner.join("draft"), "b").unwrap();
        std::fs::rename(inner.join("draft"), inner.join("tools.yaml")).unwrap();
        timeout(TEST_TIMEOUT, watch.changed()).await.expect("a file was replaced");
        // One change can cause several events, and the last one may be late.
        while timeout(QUIET_PERIOD * 3, watch.changed()).await.is_ok() {}
        std::fs::read(inner.join("tools.yaml")).unwrap();
        std::fs::write(root.join("elsewhere"), "c").unwrap();
        assert!(
            timeout(QUIET_PERIOD * 3, watch.changed()).await.is_err(),
            "reads and files elsewhere do not count"
        );
    }
}
