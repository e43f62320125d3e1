//! Tells when a file of the configuration has changed and lies still again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// An editor writes a file in several steps; after such a pause it is done.
const QUIET: Duration = Duration::from_millis(100);
/// Whoever never pauses is not waited for longer.
const LONGEST: Duration = Duration::from_secs(2);

/// Watches folders, also those that are not there yet.
pub struct ConfigWatch {
    folders: Vec<PathBuf>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// How many of them the system agreed to watch.
    armed: usize,
    changes: mpsc::Receiver<()>,
    /// Keeps the channel open where there is no watcher: then nothing is ever told.
    _sender: mpsc::Sender<()>,
}

impl ConfigWatch {
    /// Watches these folders. Where the system cannot, it says so once, and only a human's word reloads.
    pub fn on(folders: Vec<PathBuf>) -> Self {
        let (sender, changes) = mpsc::channel(1);
        let (told, about) = (sender.clone(), folders.clone());
        let watcher = ::notify::recommended_watcher(move |event: ::notify::Result<Event>| {
            if event.is_ok_and(|event| concerns(&event, &about)) {
                // One is enough however many steps it stands for.
                let _ = told.try_send(());
            }
        });
        let watcher = watcher.inspect_err(|error| tracing::warn!(%error, "config_not_watched")).ok();
        let mut watch =
            ConfigWatch { folders, watcher, watched: BTreeSet::new(), armed: 0, changes, _sender: sender };
        watch.arm();
        watch
    }

    /// Whether it would hear of a change.
    pub(crate) fn is_told(&self) -> bool {
        self.watcher.is_some() && self.watched.len() == self.armed
    }

    /// Returns when something has changed and nothing has for a moment.
    pub(crate) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            return std::future::pending().await;
        }
        let settling = async { while let Ok(Some(())) = timeout(QUIET, self.changes.recv()).await {} };
        let _ = timeout(LONGEST, settling).await;
        self.arm();
    }

    /// Watches what is there by now: each folder, or the nearest above it that exists.
    fn arm(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        let there =
            |folder: &PathBuf| folder.ancestors().find(|folder| folder.is_dir()).map(Path::to_path_buf);
        let wanted: BTreeSet<PathBuf> = self.folders.iter().filter_map(there).collect();
        // All anew: a folder that was replaced has the name of the one that was watched.
        for folder in &self.watched {
            let _ = watcher.unwatch(folder);
        }
        self.armed = 0;
        for folder in &wanted {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => self.armed += 1,
                Err(error) => {
                    tracing::warn!(%error, folder = %folder.display(), "config_not_watched");
                }
            }
        }
        self.watched = wanted;
    }
}

/// Whether something was done to one of the folders or in them. Looking is nothing: we do it ourselves.
fn concerns(event: &Event, folders: &[PathBuf]) -> bool {
    let ours = |path: &PathBuf| {
        folders.iter().any(|folder| path.parent() == Some(folder) || folder.starts_with(path))
    };
    !event.kind.is_access() && (event.paths.is_empty() || event.paths.iter().any(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn changes_are_told_also_in_folders_that_come_later() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let (config, inner) = (root.join("config"), root.join("config/governance"));
        let mut watch = ConfigWatch::on(vec![config.clone(), inner.clone()]);
        std::fs::create_dir(&config).unwrap();
        timeout(PATIENCE, watch.changed()).await.expect("the folder came");
        std::fs::create_dir(&inner).unwrap();
        timeout(PATIENCE, watch.changed()).await.expect("the folder in it came");
        std::fs::write(inner.join("tools.yaml"), "a").unwrap();
        timeout(PATIENCE, watch.changed()).await.expect("a file came");
        // As editors do it: a new file takes the name of the old one.
        std::fs::write(inner.join("draft"), "b").unwrap();
        std::fs::rename(inner.join("draft"), inner.join("tools.yaml")).unwrap();
        timeout(PATIENCE, watch.changed()).await.expect("a file was replaced");
        // One change can be told in parts, and the last part late.
        while timeout(QUIET * 3, watch.changed()).await.is_ok() {}
        std::fs::read(inner.join("tools.yaml")).unwrap();
        std::fs::write(root.join("elsewhere"), "c").unwrap();
        assert!(timeout(QUIET * 3, watch.changed()).await.is_err(), "looking and others' files are nothing");
    }
}
