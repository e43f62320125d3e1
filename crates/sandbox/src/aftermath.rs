//! What comes after a run: names it made that something would run by itself are set aside. Where nobody waits for it any
//! more that is done once its processes are gone, and where the daemon went with it, by the next one.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::confined::Confined;
use crate::error::SandboxError;
use crate::inventory::{self, Kept};
use crate::pool::Launcher;
use crate::quarantine::{Quarantined, quarantine};
use crate::runs::Noted;

/// What was there before a run, as far as it tells what is new after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The folders it could change.
    pub(crate) writable: Vec<PathBuf>,
    /// What was hidden there, and not looked into.
    pub(crate) hidden: Vec<PathBuf>,
    /// Protected names that were there.
    pub(crate) kept: BTreeMap<PathBuf, Kept>,
}

impl Before {
    /// Sets aside what is new, or only what is new since before then. Nothing of the run is left, so what is found now is
    /// what it left behind. Blocks on the disk.
    pub(crate) fn set_new_names_aside(
        &self,
        latest: Option<SystemTime>,
    ) -> Result<Vec<Quarantined>, SandboxError> {
        let (mut aside, mut problem) = (Vec::new(), None);
        let hidden: HashSet<&Path> = self.hidden.iter().map(PathBuf::as_path).collect();
        for folder in &self.writable {
            // What was hidden was not looked into before, so what is in it is not new.
            let found = inventory::take(folder, inventory::MOST_AFTER, |path| !hidden.contains(path));
            let new = found.kept.iter().filter(|(path, now)| !self.knew(path, now)).map(|(path, _)| path);
            // What was unlisted before was hidden, and is not come to again.
            let all = new.chain(&found.unlisted);
            let in_time = all.filter(|path| latest.is_none_or(|latest| is_from_before(path, latest)));
            aside.extend(in_time.map(|path| quarantine(path)));
            problem = problem.or(found.problem);
        }
        let Some(problem) = problem else { return Ok(aside) };
        aside.iter().for_each(told);
        Err(SandboxError::LeftUnseen(Box::new(problem)))
    }

    /// Whether a protected name found later is the one that was here. Another file in the same folder is: a mount held
    /// the name, so only somebody outside can have replaced it. In another folder of that name it is not: the folder
    /// was put there to bring it.
    fn knew(&self, path: &Path, now: &Kept) -> bool {
        self.kept.get(path).is_some_and(|before| {
            let is_unchanged = (before.file, before.changed) == (now.file, now.changed);
            is_unchanged || (!before.is_link && !now.is_link && before.folder == now.folder)
        })
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
    run: Option<(Confined, Launcher, Option<Noted>)>,
}

impl Underway {
    pub(crate) fn new(confined: Confined, launcher: Launcher, noted: Option<Noted>) -> Underway {
        Underway { run: Some((confined, launcher, noted)) }
    }

    pub(crate) fn parts(&mut self) -> Option<(&Confined, &mut Launcher)> {
        self.run.as_mut().map(|(confined, launcher, _)| (&*confined, launcher))
    }

    /// It is over, and nothing of it is left but what it made.
    pub(crate) async fn over(mut self) -> Result<Vec<Quarantined>, SandboxError> {
        let Some((confined, _, noted)) = self.run.take() else { return Err(SandboxError::Lost) };
        see_to(confined.before, noted).await
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let Some((confined, launcher, noted)) = self.run.take() else { return };
        // Without a runtime this program is ending, and the next one finds the note.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            launcher.end().await;
            match see_to(confined.before, noted).await {
                Ok(aside) => aside.iter().for_each(told),
                Err(error) => tracing::warn!(%error, "what a run left behind could not be looked through"),
            }
        });
    }
}

/// Says what was set aside where no result can.
pub(crate) fn told(aside: &Quarantined) {
    let (path, moved_to) = (aside.path.display(), aside.moved_to.as_ref().map(|path| path.display()));
    tracing::warn!(%path, moved_to = moved_to.map(tracing::field::display), "set aside what a run left behind");
}

async fn see_to(before: Before, noted: Option<Noted>) -> Result<Vec<Quarantined>, SandboxError> {
    if before.writable.is_empty() {
        return Ok(Vec::new());
    }
    let looked = tokio::task::spawn_blocking(move || {
        let aside = before.set_new_names_aside(None);
        if let Some(noted) = noted {
            noted.over();
        }
        aside
    });
    looked.await.unwrap_or(Err(SandboxError::Lost))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn before(root: &Path) -> Before {
        let kept = inventory::take(root, inventory::MOST_BEFORE, |_| true).kept;
        Before { writable: vec![root.to_owned()], hidden: Vec::new(), kept }
    }

    #[test]
    fn a_protected_name_is_known_again_unless_its_folder_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let config = root.join(".git/config");
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(&config, "original").unwrap();
        let before = before(&root);
        let aside = || before.set_new_names_aside(None).unwrap().len();
        assert_eq!(aside(), 0);
        std::fs::write(root.join("other"), "by the owner").unwrap();
        std::fs::rename(root.join("other"), &config).unwrap();
        assert_eq!(aside(), 0, "replaced in its folder: from outside");
        std::fs::rename(root.join(".git"), root.join("moved")).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(&config, "by another").unwrap();
        assert_eq!(aside(), 1, "the folder is another");
        assert!(!config.exists());
    }

    #[test]
    fn what_is_newer_than_a_run_is_not_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let before = before(&root);
        std::fs::write(root.join(".bashrc"), "").unwrap();
        let now = SystemTime::now();
        let aside = |latest| before.set_new_names_aside(Some(latest)).unwrap().len();
        assert_eq!(aside(now - Duration::from_secs(60)), 0);
        assert_eq!(aside(now + Duration::from_secs(60)), 1);
    }
}
