//! What comes after a run: names it made that something would run by itself are set aside. Where nobody waits for it any
//! more that is done once its processes are gone, and where the daemon went with it, by the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::bounds::Bounds;
use crate::confined::Confined;
use crate::error::SandboxError;
use crate::inventory::{Inventory, Kept};
use crate::left::Left;
use crate::look::{self, Closed, SIGN_OF_REPOSITORY};
use crate::places::Place;
use crate::pool::Launcher;
use crate::quarantine::{Quarantined, quarantine};
use crate::runs::Noted;

/// What was there before a run, as far as it tells what is new after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The folders it could change.
    pub(crate) writable: Vec<PathBuf>,
    /// What was hidden there, and not looked into.
    pub(crate) hidden: BTreeSet<PathBuf>,
    /// Protected names that were there.
    pub(crate) kept: BTreeMap<PathBuf, Kept>,
    /// Repositories under names of their own that were there.
    pub(crate) repositories: BTreeSet<PathBuf>,
}

/// Whether other runs went on beside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// None did, the whole time.
    None,
    /// Some did, or nobody knows.
    Others,
}

impl Before {
    /// Sets aside what is new, or only what is new since before then. Nothing of the run is left, so what is found now is
    /// what it left behind. Blocks on the disk.
    pub(crate) fn set_new_names_aside(
        &self,
        company: Company,
        latest: Option<SystemTime>,
        bounds: &Bounds,
    ) -> Result<Vec<Quarantined>, SandboxError> {
        let (mut aside, mut problem) = (Aside::default(), None);
        for folder in &self.writable {
            // What was hidden was not looked into before, so what is in it is not new.
            let shows = |path: &Path| !self.hidden.contains(path);
            let unseen = look::each(folder, bounds, Closed::Opened, &shows, &mut |found| {
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

    /// What is there now that was not, in a folder that is one of those that could be changed.
    fn new_in(&self, found: &Inventory, company: Company) -> Vec<PathBuf> {
        let is_known = |folder: &Path| self.repositories.contains(folder);
        let of_new_repository =
            |path: &Path, now: &Kept| now.is_of_repository && !path.parent().is_some_and(is_known);
        let names = found.kept.iter().filter(|(path, now)| !self.knew(path, now, company));
        let names = names.filter(|(path, now)| !of_new_repository(path, now)).map(|(path, _)| path.clone());
        // Without its sign git takes no notice of the rest, which may have been there before.
        let repositories = found.repositories.iter().filter(|folder| !is_known(folder));
        let signs = repositories.map(|folder| folder.join(SIGN_OF_REPOSITORY));
        // What was too deep before was hidden, and is not come to again.
        let deep = found.deep.iter().map(|held| held.path.clone());
        names.chain(signs).chain(deep).collect()
    }

    /// Sets a name aside, unless something that was there before would go with it: a rule knows that by its path.
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

    /// Whether a protected name found later is the one that was here: the same file. For a run without company another
    /// one in the same folder is, too: a mount held the name, so only somebody outside can have replaced it. In company
    /// a name can be freed by who did not hold it, and given by who did.
    fn knew(&self, path: &Path, now: &Kept, company: Company) -> bool {
        self.kept.get(path).is_some_and(|before| {
            let is_same = before.file == now.file && before.made == now.made && before.is_link == now.is_link;
            let is_held = !before.is_link && !now.is_link && before.folder == now.folder;
            is_same || (is_held && company == Company::None)
        })
    }
}

/// What was set aside, as far as it is listed.
#[derive(Default)]
struct Aside {
    listed: Vec<Quarantined>,
    bytes: usize,
    /// How many are told in the log alone.
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

/// Whether a name was last given or changed before this time, by the clock that no program sets. What cannot be asked was.
fn is_from_before(path: &Path, latest: SystemTime) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(facts) = path.symlink_metadata() else { return true };
    let latest = latest.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u64::try_from(facts.ctime()).unwrap_or(0) <= latest
}

/// A run that goes on. Dropped before it is over, because nobody waits for it any more or because it failed, it is ended
/// all the same, and seen to.
pub(crate) struct Underway {
    run: Option<Run>,
}

struct Run {
    confined: Confined,
    launcher: Launcher,
    remains: Remains,
}

/// What a run leaves to be done.
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

    /// It is over, and nothing of it is left but what it made.
    pub(crate) async fn over(mut self) -> Result<Vec<Quarantined>, SandboxError> {
        let Some(run) = self.run.take() else { return Err(SandboxError::Lost) };
        run.remains.see_to(run.confined.before).await
    }

    /// Ends it, and sees to what it made.
    pub(crate) async fn end(mut self) -> Result<Vec<Quarantined>, SandboxError> {
        let Some(run) = self.run.take() else { return Err(SandboxError::Lost) };
        run.launcher.end().await;
        run.remains.see_to(run.confined.before).await
    }

    /// Its walls were not built, so that nothing ran and nothing can be left.
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
        // Without a runtime this program is ending, and the next one finds the note.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            run.launcher.end().await;
            if let Err(error) = run.remains.see_to(run.confined.before).await {
                tracing::warn!(%error, "what an abandoned run left behind");
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

/// What was set aside, told in the log, if all of it was; what was not is kept in mind.
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

/// Says in the log what was set aside: not every result can.
fn told(aside: &Quarantined) {
    match &aside.moved_to {
        Some(moved_to) => tracing::warn!(path = ?aside.path, ?moved_to, "set aside what a run left behind"),
        None => tracing::warn!(path = ?aside.path, "could not set aside what a run left behind"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::awaited::Until;
    use crate::world::World;

    impl World {
        fn before(&self) -> Before {
            let found = look::take(&self.root, &Bounds::after(), |_| true);
            let Inventory { kept, repositories, .. } = found;
            Before { writable: vec![self.root.clone()], hidden: BTreeSet::new(), kept, repositories }
        }

        /// Another file under this name.
        fn replace(&self, name: &str) {
            std::fs::write(self.root.join("other"), "another").unwrap();
            std::fs::rename(self.root.join("other"), self.root.join(name)).unwrap();
        }
    }

    /// What is set aside then, by its name.
    fn aside(before: &Before, company: Company) -> Vec<PathBuf> {
        let aside = before.set_new_names_aside(company, None, &Bounds::after()).unwrap();
        assert!(aside.iter().all(|one| one.moved_to.is_some()), "{aside:?}");
        aside.into_iter().map(|one| one.path).collect()
    }

    #[test]
    fn a_protected_name_is_known_again_by_its_file() {
        let world = World::with(&[".git"], &[".git/config"]);
        let (before, config) = (world.before(), world.root.join(".git/config"));
        assert!(aside(&before, Company::Others).is_empty());
        std::fs::write(&config, "changed by the owner").unwrap();
        assert!(aside(&before, Company::Others).is_empty(), "the same file");
        world.replace(".git/config");
        assert!(aside(&before, Company::None).is_empty(), "replaced in its folder: from outside");
        let of_another = aside(&before, Company::Others);
        assert_eq!(of_another, std::slice::from_ref(&config), "or by a run beside this one");
        std::fs::rename(world.root.join(".git"), world.root.join("moved")).unwrap();
        std::fs::create_dir(world.root.join(".git")).unwrap();
        std::fs::write(&config, "by another").unwrap();
        assert_eq!(aside(&before, Company::None), [config], "the folder is another");
    }

    #[test]
    fn a_number_given_out_again_makes_no_other_file_known() {
        let world = World::with(&[], &[".envrc"]);
        let mut before = world.before();
        let kept = before.kept.values_mut().next().unwrap();
        kept.made.1 += 1;
        assert_eq!(aside(&before, Company::Others), [world.root.join(".envrc")], "made at another time");
    }

    #[test]
    fn a_folder_that_became_a_repository_loses_what_makes_it_one() {
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
        assert!(world.root.join("src/hooks").exists(), "it was there before");
        assert!(aside(&before, Company::None).is_empty());
    }

    #[test]
    fn nothing_that_was_there_before_goes_with_a_name_that_is_set_aside() {
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
        assert!(left.refuse_in(std::slice::from_ref(&world.root)).is_ok(), "by now it can be set aside");
        assert!(!world.root.join("a/.vscode").exists());
    }

    #[test]
    fn what_is_newer_than_a_run_is_not_its_own() {
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
    fn what_was_closed_over_is_set_aside_and_closed_again() {
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
    fn what_there_was_no_time_for_is_told_as_unseen() {
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
    fn more_names_than_are_listed_are_set_aside_all_the_same() {
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
