//! Cleanup after a run: quarantines new files that other programs run automatically. If the caller no longer
//! waits, the cleanup happens once the run's processes have ended. If the daemon was killed during the run,
//! the next daemon does it.

pub(crate) mod active_runs;
pub(crate) mod quarantine;
pub(crate) mod run_journal;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cleanup::active_runs::ActiveRun;
use crate::cleanup::quarantine::{Leftovers, Quarantined, quarantine};
use crate::cleanup::run_journal::JournalEntry;
use crate::error::SandboxError;
use crate::launch::pool::Launcher;
use crate::prepare::ConfinedCommand;
use crate::scan::bounds::ScanBounds;
use crate::scan::inventory::{Inventory, ProtectedFile};
use crate::scan::{self, REPOSITORY_HEAD, UnlistableFolders};

/// State of the granted folders before a run, as far as it is needed to recognise new files after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkspaceBaseline {
    /// Folders that the run could change.
    pub(crate) writable: Vec<PathBuf>,
    /// Hidden paths in them, which were not scanned.
    pub(crate) hidden: BTreeSet<PathBuf>,
    /// Protected paths that existed.
    pub(crate) protected: BTreeMap<PathBuf, ProtectedFile>,
    /// Bare repositories (folders without a `.git` name) that existed.
    pub(crate) repositories: BTreeSet<PathBuf>,
}

/// States if other runs were active during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConcurrentRuns {
    /// No other run was active at any time.
    None,
    /// Other runs were active, or it is unknown.
    Possible,
}

impl WorkspaceBaseline {
    /// Quarantines new names, limited to those changed before `latest` if it is given. No process of the run
    /// is left, so everything that is new now was left by it. Blocks on the disk.
    pub(crate) fn quarantine_new_names(
        &self,
        concurrent_runs: ConcurrentRuns,
        latest: Option<SystemTime>,
        bounds: &ScanBounds,
    ) -> Result<Vec<Quarantined>, SandboxError> {
        let (mut quarantined, mut problem) = (QuarantineList::default(), None);
        for folder in &self.writable {
            // Hidden folders were not scanned before the run, so their contents are not new.
            let shows = |path: &Path| !self.hidden.contains(path);
            let scan_error =
                scan::scan_each(folder, bounds, UnlistableFolders::MakeAccessible, &shows, &mut |found| {
                    let new = self.new_names(&found, concurrent_runs);
                    let in_time =
                        new.iter().filter(|path| latest.is_none_or(|latest| predates(path, latest)));
                    in_time
                        .filter_map(|path| self.quarantine_path(path))
                        .for_each(|one| quarantined.add(one, bounds));
                    Ok(())
                });
            problem = problem.or(scan_error);
        }
        let problem = problem.map(|scan_error| SandboxError::CleanupIncomplete(Box::new(scan_error)));
        let Some(problem) = problem.or(quarantined.too_many()) else { return Ok(quarantined.listed) };
        quarantined.listed.iter().for_each(log_quarantined);
        Err(problem)
    }

    /// Returns the paths of a writable folder that are there now and were not before.
    fn new_names(&self, found: &Inventory, concurrent_runs: ConcurrentRuns) -> Vec<PathBuf> {
        let is_known = |folder: &Path| self.repositories.contains(folder);
        let of_new_repository =
            |path: &Path, now: &ProtectedFile| now.is_in_repository && !path.parent().is_some_and(is_known);
        let names = found.protected.iter().filter(|(path, now)| !self.is_known(path, now, concurrent_runs));
        let names = names.filter(|(path, now)| !of_new_repository(path, now)).map(|(path, _)| path.clone());
        // Without `HEAD` git does not take the folder for a repository; the other files may have existed
        // before.
        let repositories = found.repositories.iter().filter(|folder| !is_known(folder));
        let signs = repositories.map(|folder| folder.join(REPOSITORY_HEAD));
        // Folders that were too deep before the run were hidden, and this scan does not reach them.
        let deep = found.too_deep.iter().map(|expected| expected.path.clone());
        names.chain(signs).chain(deep).collect()
    }

    /// Quarantines a path, unless a path that existed before would move with it: the rules know that one by
    /// its path.
    fn quarantine_path(&self, path: &Path) -> Option<Quarantined> {
        let below = (Bound::Excluded(path), Bound::Unbounded);
        let next_protected = self.protected.range::<Path, _>(below).next().map(|(path, _)| path);
        let mut next = self
            .hidden
            .range::<Path, _>(below)
            .next()
            .into_iter()
            .chain(next_protected)
            .chain(&self.writable);
        match next.any(|other| other.starts_with(path)) {
            true => Some(Quarantined { path: path.to_owned(), moved_to: None }),
            false => quarantine(path),
        }
    }

    /// Returns true if a protected path still has the file that was there before the run. If no other run was
    /// active, another file in the same folder is accepted too: a mount protected the path, so only a process
    /// outside can have replaced it. With concurrent runs, one that did not protect the path can free it and
    /// one that did can fill it.
    fn is_known(&self, path: &Path, now: &ProtectedFile, concurrent_runs: ConcurrentRuns) -> bool {
        self.protected.get(path).is_some_and(|before| {
            let is_same = before.file == now.file
                && before.created == now.created
                && before.is_symlink == now.is_symlink;
            let was_mounted_over = !before.is_symlink && !now.is_symlink && before.parent == now.parent;
            is_same || (was_mounted_over && concurrent_runs == ConcurrentRuns::None)
        })
    }
}

/// Quarantined files, as far as they are listed.
#[derive(Default)]
struct QuarantineList {
    listed: Vec<Quarantined>,
    bytes: usize,
    /// Number of further files, which are only logged.
    unlisted: usize,
}

impl QuarantineList {
    fn add(&mut self, one: Quarantined, bounds: &ScanBounds) {
        let moved_to = one.moved_to.as_ref().map_or(0, |path| path.as_os_str().len());
        self.bytes = self.bytes.saturating_add(one.path.as_os_str().len() + moved_to);
        if bounds.is_exceeded_by(self.listed.len() + 1, self.bytes) {
            log_quarantined(&one);
            self.unlisted += 1;
        } else {
            self.listed.push(one);
        }
    }

    fn too_many(&self) -> Option<SandboxError> {
        (self.unlisted > 0).then(|| SandboxError::TooManyLeftovers(self.listed.len() + self.unlisted))
    }
}

/// Returns true if the inode of a path last changed before this time; the change time cannot be set by
/// programs. Also true if it cannot be read.
fn predates(path: &Path, latest: SystemTime) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(facts) = path.symlink_metadata() else { return true };
    let latest = latest.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u64::try_from(facts.ctime()).unwrap_or(0) <= latest
}

/// A run in progress. Dropping it, after a cancellation or a failure, ends the run and cleans up after it.
pub(crate) struct RunHandle {
    run: Option<StartedRun>,
}

struct StartedRun {
    confined: ConfinedCommand,
    launcher: Launcher,
    cleanup: RunCleanup,
}

/// Resources needed for the cleanup of a run.
struct RunCleanup {
    journal_entry: Option<JournalEntry>,
    active_run: Option<ActiveRun>,
    leftovers: Leftovers,
}

impl RunHandle {
    pub(crate) fn new(
        confined: ConfinedCommand,
        launcher: Launcher,
        journal_entry: Option<JournalEntry>,
        active_run: Option<ActiveRun>,
        leftovers: Leftovers,
    ) -> RunHandle {
        let cleanup = RunCleanup { journal_entry, active_run, leftovers };
        RunHandle { run: Some(StartedRun { confined, launcher, cleanup }) }
    }

    pub(crate) fn parts(&mut self) -> Option<(&ConfinedCommand, &mut Launcher)> {
        self.run.as_mut().map(|run| (&run.confined, &mut run.launcher))
    }

    /// Cleans up after a run that is over.
    pub(crate) async fn finish(mut self) -> Result<Vec<Quarantined>, SandboxError> {
        let Some(run) = self.run.take() else { return Err(SandboxError::LauncherLost) };
        run.cleanup.run(run.confined.baseline).await
    }

    /// Ends the run and cleans up after it.
    pub(crate) async fn end(mut self) -> Result<Vec<Quarantined>, SandboxError> {
        let Some(run) = self.run.take() else { return Err(SandboxError::LauncherLost) };
        run.launcher.end().await;
        run.cleanup.run(run.confined.baseline).await
    }

    /// Releases a run whose sandbox was not built, so that nothing ran and nothing can be left behind.
    pub(crate) async fn abandon_unstarted(mut self) -> Option<ConfinedCommand> {
        let run = self.run.take()?;
        run.launcher.end().await;
        if let Some(noted) = run.cleanup.journal_entry {
            noted.remove();
        }
        Some(run.confined)
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        // Without a runtime this process is ending; the next daemon finds the journal entry.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            run.launcher.end().await;
            if let Err(error) = run.cleanup.run(run.confined.baseline).await {
                tracing::warn!(%error, "cleanup after an abandoned run");
            }
        });
    }
}

impl RunCleanup {
    async fn run(self, before: WorkspaceBaseline) -> Result<Vec<Quarantined>, SandboxError> {
        if before.writable.is_empty() {
            return Ok(Vec::new());
        }
        let scanned = tokio::task::spawn_blocking(move || {
            let concurrent_runs = if self.active_run.as_ref().is_some_and(ActiveRun::ran_alone) {
                ConcurrentRuns::None
            } else {
                ConcurrentRuns::Possible
            };
            let quarantined = require_all_quarantined(
                before.quarantine_new_names(concurrent_runs, None, &ScanBounds::after_run())?,
                &self.leftovers,
            )?;
            if let Some(noted) = self.journal_entry {
                noted.remove();
            }
            Ok(quarantined)
        });
        scanned.await.unwrap_or(Err(SandboxError::LauncherLost))
    }
}

/// Logs the quarantined files; fails if some could not be quarantined, and remembers those.
pub(crate) fn require_all_quarantined(
    quarantined: Vec<Quarantined>,
    leftovers: &Leftovers,
) -> Result<Vec<Quarantined>, SandboxError> {
    quarantined.iter().for_each(log_quarantined);
    let still: Vec<PathBuf> =
        quarantined.iter().filter(|one| one.moved_to.is_none()).map(|one| one.path.clone()).collect();
    if still.is_empty() {
        return Ok(quarantined);
    }
    leftovers.add(still.iter().cloned());
    Err(SandboxError::QuarantineFailed(still))
}

/// Logs a quarantined file, because not every result can report it.
fn log_quarantined(quarantined: &Quarantined) {
    match &quarantined.moved_to {
        Some(moved_to) => tracing::warn!(path = ?quarantined.path, ?moved_to, "quarantined a leftover file"),
        None => tracing::warn!(path = ?quarantined.path, "could not quarantine a leftover file"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scan::cancellation::WorkDeadline;
    use crate::scan::test_folder::TestFolder;

    impl TestFolder {
        fn before(&self) -> WorkspaceBaseline {
            let found = scan::scan(&self.root, &ScanBounds::after_run(), |_| true);
            let Inventory { protected: kept, repositories, .. } = found;
            WorkspaceBaseline {
                writable: vec![self.root.clone()],
                hidden: BTreeSet::new(),
                protected: kept,
                repositories,
            }
        }

        /// Replaces the file at this path with another one.
        fn replace(&self, name: &str) {
            std::fs::write(self.root.join("other"), "another").unwrap();
            std::fs::rename(self.root.join("other"), self.root.join(name)).unwrap();
        }
    }

    /// Returns the paths that are quarantined.
    fn aside(before: &WorkspaceBaseline, company: ConcurrentRuns) -> Vec<PathBuf> {
        let aside = before.quarantine_new_names(company, None, &ScanBounds::after_run()).unwrap();
        assert!(aside.iter().all(|one| one.moved_to.is_some()), "{aside:?}");
        aside.into_iter().map(|one| one.path).collect()
    }

    #[test]
    fn protected_path_is_recognised_by_its_file() {
        let fixture = TestFolder::with(&[".git"], &[".git/config"]);
        let (before, config) = (fixture.before(), fixture.root.join(".git/config"));
        assert!(aside(&before, ConcurrentRuns::Possible).is_empty());
        std::fs::write(&config, "changed by the owner").unwrap();
        assert!(aside(&before, ConcurrentRuns::Possible).is_empty(), "same file");
        fixture.replace(".git/config");
        assert!(
            aside(&before, ConcurrentRuns::None).is_empty(),
            "replaced in its folder by a process outside"
        );
        let of_another = aside(&before, ConcurrentRuns::Possible);
        assert_eq!(of_another, std::slice::from_ref(&config), "or by a concurrent run");
        std::fs::rename(fixture.root.join(".git"), fixture.root.join("moved")).unwrap();
        std::fs::create_dir(fixture.root.join(".git")).unwrap();
        std::fs::write(&config, "by another").unwrap();
        assert_eq!(aside(&before, ConcurrentRuns::None), [config], "another folder");
    }

    #[test]
    fn reused_inode_is_not_mistaken_for_the_old_file() {
        let fixture = TestFolder::with(&[], &[".envrc"]);
        let mut before = fixture.before();
        let kept = before.protected.values_mut().next().unwrap();
        kept.created.1 += 1;
        assert_eq!(
            aside(&before, ConcurrentRuns::Possible),
            [fixture.root.join(".envrc")],
            "created at another time"
        );
    }

    #[test]
    fn new_repository_loses_its_head_file() {
        let fixture =
            TestFolder::with(&["src/hooks", "own/objects", "own/refs"], &["own/HEAD", "own/config"]);
        let before = fixture.before();
        assert!(before.protected.contains_key(&fixture.root.join("own/config")));
        for name in ["src/objects", "src/refs", "own/hooks"] {
            std::fs::create_dir(fixture.root.join(name)).unwrap();
        }
        for name in ["src/HEAD", "src/config"] {
            std::fs::write(fixture.root.join(name), "evil").unwrap();
        }
        let mut set_aside = aside(&before, ConcurrentRuns::None);
        set_aside.sort();
        assert_eq!(set_aside, ["own/hooks", "src/HEAD"].map(|name| fixture.root.join(name)));
        assert!(fixture.root.join("src/hooks").exists(), "it existed before");
        assert!(aside(&before, ConcurrentRuns::None).is_empty());
    }

    #[test]
    fn quarantine_moves_nothing_that_existed_before() {
        let fixture = TestFolder::with(&["a/.vscode"], &["a/.env"]);
        let hidden = [fixture.root.join("a/.env")].into();
        for before in
            [fixture.before(), WorkspaceBaseline { hidden, protected: BTreeMap::new(), ..fixture.before() }]
        {
            let left = before.quarantine_path(&fixture.root.join("a")).unwrap();
            assert_eq!(left.moved_to, None);
            assert_eq!(before.quarantine_path(&fixture.root).unwrap().moved_to, None);
        }
        assert!(fixture.root.join("a/.env").exists());
        let left = Leftovers::default();
        let one = |moved_to| vec![Quarantined { path: fixture.root.join("a/.vscode"), moved_to }];
        assert!(require_all_quarantined(one(Some(PathBuf::from("/x"))), &left).is_ok());
        assert!(left.retry_or_refuse(std::slice::from_ref(&fixture.root)).is_ok());
        assert!(matches!(require_all_quarantined(one(None), &left), Err(SandboxError::QuarantineFailed(_))));
        assert!(left.retry_or_refuse(&[fixture.root.join("elsewhere")]).is_ok());
        assert!(fixture.root.join("a/.vscode").exists());
        assert!(
            left.retry_or_refuse(std::slice::from_ref(&fixture.root)).is_ok(),
            "it can be quarantined now"
        );
        assert!(!fixture.root.join("a/.vscode").exists());
    }

    #[test]
    fn files_newer_than_the_run_are_not_quarantined() {
        let fixture = TestFolder::with(&[], &[]);
        let before = fixture.before();
        std::fs::write(fixture.root.join(".bashrc"), "").unwrap();
        let now = SystemTime::now();
        let quarantine = |latest| {
            before
                .quarantine_new_names(ConcurrentRuns::Possible, Some(latest), &ScanBounds::after_run())
                .unwrap()
                .len()
        };
        assert_eq!(quarantine(now - Duration::from_secs(60)), 0);
        assert_eq!(quarantine(now + Duration::from_secs(60)), 1);
    }

    #[test]
    fn files_in_unreadable_folders_are_quarantined() {
        ::tests::drop_root_permanently();
        let fixture = TestFolder::with(&["a/b", "c"], &[]);
        let before = fixture.before();
        let left = ["a/b/.bashrc", "a/.bashrc", "c/.bashrc"];
        left.iter().for_each(|name| std::fs::write(fixture.root.join(name), "evil").unwrap());
        let closed = ["a/b", "a", "c"];
        closed.iter().for_each(|name| fixture.set_mode(name, 0o000));
        assert_eq!(aside(&before, ConcurrentRuns::None).len(), left.len());
        for name in ["a", "a/b", "c"] {
            assert_eq!(fixture.mode(name), 0o000, "{name}");
            fixture.set_mode(name, 0o755);
        }
        left.iter().for_each(|name| assert!(!fixture.root.join(name).exists(), "{name}"));
    }

    #[test]
    fn scan_timeout_is_reported_as_incomplete() {
        let fixture = TestFolder::with(&[], &[]);
        let before = fixture.before();
        std::fs::write(fixture.root.join(".bashrc"), "").unwrap();
        let late = ScanBounds { deadline: WorkDeadline::after(Duration::ZERO), ..ScanBounds::after_run() };
        let reported = before.quarantine_new_names(ConcurrentRuns::None, None, &late).unwrap_err();
        assert!(
            matches!(&reported, SandboxError::CleanupIncomplete(why) if matches!(**why, SandboxError::ScanTimedOut(_))),
            "{reported}"
        );
    }

    #[test]
    fn files_beyond_the_list_limit_are_quarantined_too() {
        let fixture = TestFolder::with(&["a", "b", "c"], &[]);
        let before = fixture.before();
        let left = ["a/.bashrc", "b/.bashrc", "c/.bashrc"];
        left.iter().for_each(|name| std::fs::write(fixture.root.join(name), "evil").unwrap());
        let few = ScanBounds { names: 1, ..ScanBounds::after_run() };
        let reported = before.quarantine_new_names(ConcurrentRuns::None, None, &few);
        assert!(matches!(reported, Err(SandboxError::TooManyLeftovers(3))), "{reported:?}");
        left.iter().for_each(|name| assert!(!fixture.root.join(name).exists(), "{name}"));
    }
}
