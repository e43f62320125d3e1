//! Cleanup after a run: quarantines new files that other programs run automatically. If the caller no longer
//! waits, the cleanup happens once the run's processes are gone; if the daemon died with the run, the next
//! daemon does it.

pub(crate) mod active_runs;
pub(crate) mod quarantine;
pub(crate) mod run_journal;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cleanup::active_runs::Place;
use crate::cleanup::quarantine::{Left, Quarantined, quarantine};
use crate::cleanup::run_journal::Noted;
use crate::error::SandboxError;
use crate::launch::pool::Launcher;
use crate::prepare::Confined;
use crate::scan::bounds::Bounds;
use crate::scan::inventory::{Inventory, Kept};
use crate::scan::{self, Closed, SIGN_OF_REPOSITORY};

/// State of the granted folders before a run, as far as it is needed to recognise new files after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// Folders that the run could change.
    pub(crate) writable: Vec<PathBuf>,
    /// Hidden paths in them, which were not scanned.
    pub(crate) hidden: BTreeSet<PathBuf>,
    /// Protected paths that existed.
    pub(crate) kept: BTreeMap<PathBuf, Kept>,
    /// Bare repositories (folders without a `.git` name) that existed.
    pub(crate) repositories: BTreeSet<PathBuf>,
}

/// States if other runs were active during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// No other run was active at any time.
    None,
    /// Other runs were active, or it is unknown.
    Others,
}

impl Before {
    /// Quarantines new names, limited to those changed before `latest` if it is given. No process of the run
    /// is left, so everything that is new now was left by it. Blocks on the disk.
    pub(crate) fn set_new_names_aside(
        &self,
        company: Company,
        latest: Option<SystemTime>,
        bounds: &Bounds,
    ) -> Result<Vec<Quarantined>, SandboxError> {
        let (mut aside, mut problem) = (Aside::default(), None);
        for folder in &self.writable {
            // Hidden folders were not scanned before the run, so their contents are not new.
            let shows = |path: &Path| !self.hidden.contains(path);
            let unseen = scan::each(folder, bounds, Closed::Opened, &shows, &mut |found| {
                let new = self.new_in(&found, company);
                let in_time =
                    new.iter().filter(|path| latest.is_none_or(|latest| is_from_before(path, latest)));
                in_time.filter_map(|path| self.set_aside(path)).for_each(|one| aside.add(one, bounds));
                Ok(())
            });
            problem = problem.or(unseen);
        }
        let problem = problem.map(|unseen| SandboxError::LeftUnseen(Box::new(unseen)));
        let Some(problem) = problem.or(aside.too_many()) else { return Ok(aside.listed) };
        aside.listed.iter().for_each(told);
        Err(problem)
    }

    /// Returns the paths of a writable folder that are there now and were not before.
    fn new_in(&self, found: &Inventory, company: Company) -> Vec<PathBuf> {
        let is_known = |folder: &Path| self.repositories.contains(folder);
        let of_new_repository =
            |path: &Path, now: &Kept| now.is_of_repository && !path.parent().is_some_and(is_known);
        let names = found.kept.iter().filter(|(path, now)| !self.knew(path, now, company));
        let names = names.filter(|(path, now)| !of_new_repository(path, now)).map(|(path, _)| path.clone());
        // Without `HEAD` git does not take the folder for a repository; the other files may have existed
        // before.
        let repositories = found.repositories.iter().filter(|folder| !is_known(folder));
        let signs = repositories.map(|folder| folder.join(SIGN_OF_REPOSITORY));
        // Folders that were too deep before the run were hidden, and this scan does not reach them.
        let deep = found.deep.iter().map(|held| held.path.clone());
        names.chain(signs).chain(deep).collect()
    }

    /// Quarantines a path, unless a path that existed before would move with it: the rules know that one by
    /// its path.
    fn set_aside(&self, path: &Path) -> Option<Quarantined> {
        let below = (Bound::Excluded(path), Bound::Unbounded);
        let kept = self.kept.range::<Path, _>(below).next().map(|(path, _)| path);
        let mut next =
            self.hidden.range::<Path, _>(below).next().into_iter().chain(kept).chain(&self.writable);
        match next.any(|other| other.starts_with(path)) {
            true => Some(Quarantined { path: path.to_owned(), moved_to: None }),
            false => quarantine(path),
        }
    }

    /// Returns true if a protected path still has the file that was there before the run. If no other run was
    /// active, another file in the same folder is accepted too: a mount protected the path, so only a process
    /// outside can have replaced it. With concurrent runs, one that did not protect the path can free it and
    /// one that did can fill it.
    fn knew(&self, path: &Path, now: &Kept, company: Company) -> bool {
        self.kept.get(path).is_some_and(|before| {
            let is_same = before.file == now.file && before.made == now.made && before.is_link == now.is_link;
            let is_held = !before.is_link && !now.is_link && before.folder == now.folder;
            is_same || (is_held && company == Company::None)
        })
    }
}

/// Quarantined files, as far as they are listed.
#[derive(Default)]
struct Aside {
    listed: Vec<Quarantined>,
    bytes: usize,
    /// Number of further files, which are only logged.
    more: usize,
}

impl Aside {
    fn add(&mut self, one: Quarantined, bounds: &Bounds) {
        let moved_to = one.moved_to.as_ref().map_or(0, |path| path.as_os_str().len());
        self.bytes = self.bytes.saturating_add(one.path.as_os_str().len() + moved_to);
        if bounds.are_too_many(self.listed.len() + 1, self.bytes) {
            told(&one);
            self.more += 1;
        } else {
            self.listed.push(one);
        }
    }

    fn too_many(&self) -> Option<SandboxError> {
        (self.more > 0).then(|| SandboxError::LeftTooMany(self.listed.len() + self.more))
    }
}

/// Returns true if the inode of a path last changed before this time; the change time cannot be set by
/// programs. Also true if it cannot be read.
fn is_from_before(path: &Path, latest: SystemTime) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(facts) = path.symlink_metadata() else { return true };
    let latest = latest.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u64::try_from(facts.ctime()).unwrap_or(0) <= latest
}

/// A run in progress. Dropping it, after a cancellation or a failure, ends the run and cleans up after it.
pub(crate) struct Underway {
    run: Option<Run>,
}

struct Run {
    confined: Confined,
    launcher: Launcher,
    remains: Remains,
}

/// Resources needed for the cleanup of a run.
struct Remains {
    noted: Option<Noted>,
    place: Option<Place>,
    left: Left,
}

impl Underway {
    pub(crate) fn new(
        confined: Confined,
        launcher: Launcher,
        noted: Option<Noted>,
        place: Option<Place>,
        left: Left,
    ) -> Underway {
        let remains = Remains { noted, place, left };
        Underway { run: Some(Run { confined, launcher, remains }) }
    }

    pub(crate) fn parts(&mut self) -> Option<(&Confined, &mut Launcher)> {
        self.run.as_mut().map(|run| (&run.confined, &mut run.launcher))
    }

    /// Cleans up after a run that is over.
    pub(crate) async fn over(mut self) -> Result<Vec<Quarantined>, SandboxError> {
        let Some(run) = self.run.take() else { return Err(SandboxError::Lost) };
        run.remains.see_to(run.confined.before).await
    }

    /// Ends the run and cleans up after it.
    pub(crate) async fn end(mut self) -> Result<Vec<Quarantined>, SandboxError> {
        let Some(run) = self.run.take() else { return Err(SandboxError::Lost) };
        run.launcher.end().await;
        run.remains.see_to(run.confined.before).await
    }

    /// Releases a run whose sandbox was not built, so that nothing ran and nothing can be left behind.
    pub(crate) async fn not_begun(mut self) -> Option<Confined> {
        let run = self.run.take()?;
        run.launcher.end().await;
        if let Some(noted) = run.remains.noted {
            noted.over();
        }
        Some(run.confined)
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        // Without a runtime this process is ending; the next daemon finds the journal entry.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            run.launcher.end().await;
            if let Err(error) = run.remains.see_to(run.confined.before).await {
                tracing::warn!(%error, "cleanup after an abandoned run");
            }
        });
    }
}

impl Remains {
    async fn see_to(self, before: Before) -> Result<Vec<Quarantined>, SandboxError> {
        if before.writable.is_empty() {
            return Ok(Vec::new());
        }
        let looked = tokio::task::spawn_blocking(move || {
            let company = if self.place.as_ref().is_some_and(Place::was_alone) {
                Company::None
            } else {
                Company::Others
            };
            let aside =
                all_set_aside(before.set_new_names_aside(company, None, &Bounds::after())?, &self.left)?;
            if let Some(noted) = self.noted {
                noted.over();
            }
            Ok(aside)
        });
        looked.await.unwrap_or(Err(SandboxError::Lost))
    }
}

/// Logs the quarantined files; fails if some could not be quarantined, and remembers those.
pub(crate) fn all_set_aside(aside: Vec<Quarantined>, left: &Left) -> Result<Vec<Quarantined>, SandboxError> {
    aside.iter().for_each(told);
    let still: Vec<PathBuf> =
        aside.iter().filter(|one| one.moved_to.is_none()).map(|one| one.path.clone()).collect();
    if still.is_empty() {
        return Ok(aside);
    }
    left.add(still.iter().cloned());
    Err(SandboxError::LeftInPlace(still))
}

/// Logs a quarantined file, because not every result can report it.
fn told(aside: &Quarantined) {
    match &aside.moved_to {
        Some(moved_to) => tracing::warn!(path = ?aside.path, ?moved_to, "quarantined a leftover file"),
        None => tracing::warn!(path = ?aside.path, "could not quarantine a leftover file"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scan::cancellation::Until;
    use crate::scan::test_folder::World;

    impl World {
        fn before(&self) -> Before {
            let found = scan::take(&self.root, &Bounds::after(), |_| true);
            let Inventory { kept, repositories, .. } = found;
            Before { writable: vec![self.root.clone()], hidden: BTreeSet::new(), kept, repositories }
        }

        /// Replaces the file at this path with another one.
        fn replace(&self, name: &str) {
            std::fs::write(self.root.join("other"), "another").unwrap();
            std::fs::rename(self.root.join("other"), self.root.join(name)).unwrap();
        }
    }

    /// Returns the paths that are quarantined.
    fn aside(before: &Before, company: Company) -> Vec<PathBuf> {
        let aside = before.set_new_names_aside(company, None, &Bounds::after()).unwrap();
        assert!(aside.iter().all(|one| one.moved_to.is_some()), "{aside:?}");
        aside.into_iter().map(|one| one.path).collect()
    }

    #[test]
    fn protected_path_is_recognised_by_its_file() {
        let world = World::with(&[".git"], &[".git/config"]);
        let (before, config) = (world.before(), world.root.join(".git/config"));
        assert!(aside(&before, Company::Others).is_empty());
        std::fs::write(&config, "changed by the owner").unwrap();
        assert!(aside(&before, Company::Others).is_empty(), "same file");
        world.replace(".git/config");
        assert!(aside(&before, Company::None).is_empty(), "replaced in its folder by a process outside");
        let of_another = aside(&before, Company::Others);
        assert_eq!(of_another, std::slice::from_ref(&config), "or by a concurrent run");
        std::fs::rename(world.root.join(".git"), world.root.join("moved")).unwrap();
        std::fs::create_dir(world.root.join(".git")).unwrap();
        std::fs::write(&config, "by another").unwrap();
        assert_eq!(aside(&before, Company::None), [config], "another folder");
    }

    #[test]
    fn reused_inode_is_not_mistaken_for_the_old_file() {
        let world = World::with(&[], &[".envrc"]);
        let mut before = world.before();
        let kept = before.kept.values_mut().next().unwrap();
        kept.made.1 += 1;
        assert_eq!(aside(&before, Company::Others), [world.root.join(".envrc")], "created at another time");
    }

    #[test]
    fn new_repository_loses_its_head_file() {
        let world = World::with(&["src/hooks", "own/objects", "own/refs"], &["own/HEAD", "own/config"]);
        let before = world.before();
        assert!(before.kept.contains_key(&world.root.join("own/config")));
        for name in ["src/objects", "src/refs", "own/hooks"] {
            std::fs::create_dir(world.root.join(name)).unwrap();
        }
        for name in ["src/HEAD", "src/config"] {
            std::fs::write(world.root.join(name), "evil").unwrap();
        }
        let mut set_aside = aside(&before, Company::None);
        set_aside.sort();
        assert_eq!(set_aside, ["own/hooks", "src/HEAD"].map(|name| world.root.join(name)));
        assert!(world.root.join("src/hooks").exists(), "it existed before");
        assert!(aside(&before, Company::None).is_empty());
    }

    #[test]
    fn quarantine_moves_nothing_that_existed_before() {
        let world = World::with(&["a/.vscode"], &["a/.env"]);
        let hidden = [world.root.join("a/.env")].into();
        for before in [world.before(), Before { hidden, kept: BTreeMap::new(), ..world.before() }] {
            let left = before.set_aside(&world.root.join("a")).unwrap();
            assert_eq!(left.moved_to, None);
            assert_eq!(before.set_aside(&world.root).unwrap().moved_to, None);
        }
        assert!(world.root.join("a/.env").exists());
        let left = Left::default();
        let one = |moved_to| vec![Quarantined { path: world.root.join("a/.vscode"), moved_to }];
        assert!(all_set_aside(one(Some(PathBuf::from("/x"))), &left).is_ok());
        assert!(left.refuse_in(std::slice::from_ref(&world.root)).is_ok());
        assert!(matches!(all_set_aside(one(None), &left), Err(SandboxError::LeftInPlace(_))));
        assert!(left.refuse_in(&[world.root.join("elsewhere")]).is_ok());
        assert!(world.root.join("a/.vscode").exists());
        assert!(left.refuse_in(std::slice::from_ref(&world.root)).is_ok(), "it can be quarantined now");
        assert!(!world.root.join("a/.vscode").exists());
    }

    #[test]
    fn files_newer_than_the_run_are_not_quarantined() {
        let world = World::with(&[], &[]);
        let before = world.before();
        std::fs::write(world.root.join(".bashrc"), "").unwrap();
        let now = SystemTime::now();
        let aside = |latest| {
            before.set_new_names_aside(Company::Others, Some(latest), &Bounds::after()).unwrap().len()
        };
        assert_eq!(aside(now - Duration::from_secs(60)), 0);
        assert_eq!(aside(now + Duration::from_secs(60)), 1);
    }

    #[test]
    fn files_in_unreadable_folders_are_quarantined() {
        ::tests::give_up_root_for_good();
        let world = World::with(&["a/b", "c"], &[]);
        let before = world.before();
        let left = ["a/b/.bashrc", "a/.bashrc", "c/.bashrc"];
        left.iter().for_each(|name| std::fs::write(world.root.join(name), "evil").unwrap());
        let closed = ["a/b", "a", "c"];
        closed.iter().for_each(|name| world.set_mode(name, 0o000));
        assert_eq!(aside(&before, Company::None).len(), left.len());
        for name in ["a", "a/b", "c"] {
            assert_eq!(world.mode(name), 0o000, "{name}");
            world.set_mode(name, 0o755);
        }
        left.iter().for_each(|name| assert!(!world.root.join(name).exists(), "{name}"));
    }

    #[test]
    fn scan_timeout_is_reported_as_incomplete() {
        let world = World::with(&[], &[]);
        let before = world.before();
        std::fs::write(world.root.join(".bashrc"), "").unwrap();
        let late = Bounds { until: Until::after(Duration::ZERO), ..Bounds::after() };
        let told = before.set_new_names_aside(Company::None, None, &late).unwrap_err();
        assert!(
            matches!(&told, SandboxError::LeftUnseen(why) if matches!(**why, SandboxError::OutOfTime(_))),
            "{told}"
        );
    }

    #[test]
    fn files_beyond_the_list_limit_are_quarantined_too() {
        let world = World::with(&["a", "b", "c"], &[]);
        let before = world.before();
        let left = ["a/.bashrc", "b/.bashrc", "c/.bashrc"];
        left.iter().for_each(|name| std::fs::write(world.root.join(name), "evil").unwrap());
        let few = Bounds { names: 1, ..Bounds::after() };
        let told = before.set_new_names_aside(Company::None, None, &few);
        assert!(matches!(told, Err(SandboxError::LeftTooMany(3))), "{told:?}");
        left.iter().for_each(|name| assert!(!world.root.join(name).exists(), "{name}"));
    }
}
