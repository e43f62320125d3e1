//! What is in the granted folders that a confined program must not see, or must not change. Mounts need names that
//! exist, so the folders are looked through before each run, and again after it for what is new.
//!
//! What was found is kept whatever came in between: a folder that cannot be looked into, or a bound that was reached,
//! is part of the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use governance::{Stands, runs_by_itself};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, OFlags, Stat, statat};
use rustix::io::Errno;

use crate::error::SandboxError;
use crate::folder;

/// A folder larger than this is refused rather than looked through half: what was not seen would not be hidden.
pub(crate) const MOST_BEFORE: usize = 400_000;
/// After a run more is looked at: what it left must be found even where the next one will be refused.
pub(crate) const MOST_AFTER: usize = 4_000_000;
/// The longest path the system takes, with the longest name in it. What is below a longer one can be reached step by step
/// and not be named, neither to a mount nor to whoever is to remove it.
const LONGEST_PATH: usize = nix::libc::PATH_MAX as usize - 1 - 256;
/// More names than this are not held one by one: each is a mount.
const MOST_NAMES: usize = 20_000;
const MOST_NAME_BYTES: usize = 4 * 1024 * 1024;

/// What was found in the granted folders.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Names that may not be read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Protected names, which may be read and not changed.
    pub(crate) kept: BTreeMap<PathBuf, Kept>,
    /// Folders that cannot be listed, or are too deep to be named from here. What is in them can be reached all the
    /// same, by whoever knows it or goes there step by step.
    pub(crate) unlisted: Vec<PathBuf>,
    /// Why this is not all.
    pub(crate) problem: Option<SandboxError>,
}

/// A protected name, and which file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) file: (u64, u64),
    /// When it was last given or changed: numbers of files are given out again.
    pub(crate) changed: (u64, u64),
    pub(crate) folder: (u64, u64),
    pub(crate) is_link: bool,
}

impl Inventory {
    /// What a mount can hold in place, which a link is not.
    pub(crate) fn mountable(&self) -> impl Iterator<Item = &PathBuf> {
        self.kept.iter().filter(|(_, kept)| !kept.is_link).map(|(path, _)| path)
    }

    /// Adds what another folder has.
    pub(crate) fn extend(&mut self, other: Inventory) {
        self.hidden.extend(other.hidden);
        self.kept.extend(other.kept);
        self.unlisted.extend(other.unlisted);
        self.problem = self.problem.take().or(other.problem);
    }

    /// All that there is, or why it is not all.
    pub(crate) fn whole(mut self) -> Result<Inventory, SandboxError> {
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => Ok(self),
        }
    }

    /// Folders that must keep their names, because a rule that hides or protects something reaches it by them: those
    /// above what is hidden, and those that a protected name is one in, as `config` is in `.git`. Nobody inside can
    /// rename what lies outside the folders that may be changed.
    pub(crate) fn pinned(&self, writable: &[PathBuf]) -> BTreeSet<PathBuf> {
        let is_inside =
            |path: &Path| writable.iter().any(|folder| path != folder.as_path() && path.starts_with(folder));
        let mut pinned = BTreeSet::new();
        for path in self.hidden.iter().chain(&self.unlisted) {
            let above = path.ancestors().skip(1).take_while(|above| is_inside(above));
            for folder in above {
                if !pinned.insert(folder.to_owned()) {
                    break;
                }
            }
        }
        for path in self.mountable() {
            let above = path.ancestors().skip(1).take_while(|above| is_inside(above));
            pinned.extend(above.take_while(|above| is_part_of_name(path, above)).map(Path::to_owned));
        }
        pinned
    }
}

/// Whether the name of a folder above is part of what makes this one a protected name.
fn is_part_of_name(path: &Path, above: &Path) -> bool {
    let rest = path.strip_prefix(above).unwrap_or(path);
    !runs_by_itself(&Path::new("/").join(rest), Stands::Folder)
}

/// Refuses names that are too many to be held.
pub(crate) fn refuse_too_many<'a>(names: impl Iterator<Item = &'a PathBuf>) -> Result<(), SandboxError> {
    let (mut count, mut bytes, mut last) = (0_usize, 0_usize, None);
    for name in names {
        (count, bytes, last) = (count + 1, bytes + name.as_os_str().len(), Some(name));
    }
    match last {
        Some(last) if count > MOST_NAMES || bytes > MOST_NAME_BYTES => {
            Err(SandboxError::TooManyNames { count, example: last.clone() })
        }
        _ => Ok(()),
    }
}

/// Looks a folder through, up to so many entries. Links are not followed; what is hidden or protected is not entered.
pub(crate) fn take(folder: &Path, most: usize, shows: impl Fn(&Path) -> bool) -> Inventory {
    let mut look =
        Look { root: folder, left: most, most, open: vec![folder.to_owned()], found: Inventory::default() };
    while let Some(next) = look.open.pop() {
        match look.through(&next, &shows) {
            Ok(()) => {}
            Err(error @ SandboxError::TooLarge { .. }) => {
                look.found.problem = Some(error);
                break;
            }
            Err(error) => {
                look.found.problem.get_or_insert(error);
            }
        }
    }
    look.found
}

struct Look<'a> {
    root: &'a Path,
    left: usize,
    most: usize,
    open: Vec<PathBuf>,
    found: Inventory,
}

impl Look<'_> {
    fn through(&mut self, folder: &Path, shows: impl Fn(&Path) -> bool) -> Result<(), SandboxError> {
        let root = self.root;
        let problem = |cause: io::Error| SandboxError::Unlisted { folder: root.to_owned(), cause };
        let opened = match folder.as_os_str().len() > LONGEST_PATH {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => folder::open(folder, OFlags::RDONLY),
        };
        let mut entries = match opened {
            Ok(handle) => Dir::new(handle).map_err(|cause| problem(cause.into()))?,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.found.unlisted.push(folder.to_owned());
                return Ok(());
            }
            Err(error) => return Err(problem(error)),
        };
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(|cause| problem(cause.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let too_large = || SandboxError::TooLarge { folder: root.to_owned(), limit: self.most };
            self.left = self.left.checked_sub(1).ok_or_else(too_large)?;
            match self.sort_in(&entries, &entry, folder.join(name), &shows) {
                Err(error) if !is_gone(&error) => return Err(problem(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn sort_in(
        &mut self,
        folder: &Dir,
        entry: &DirEntry,
        path: PathBuf,
        shows: impl Fn(&Path) -> bool,
    ) -> io::Result<()> {
        let facts = || statat(folder.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(facts()?.st_mode),
            known => known,
        };
        let stands = if kind == FileType::Directory { Stands::Folder } else { Stands::Other };
        if kind != FileType::Symlink && !shows(&path) {
            self.found.hidden.push(path);
        } else if runs_by_itself(&path, stands) {
            let (facts, folder) = (facts()?, identity(&folder.stat()?));
            let (file, changed) = (identity(&facts), changed(&facts));
            self.found.kept.insert(path, Kept { file, changed, folder, is_link: kind == FileType::Symlink });
        } else if stands == Stands::Folder {
            self.open.push(path);
        }
        Ok(())
    }
}

#[allow(clippy::unnecessary_cast, reason = "the numbers are of other sizes on other systems")]
fn identity(facts: &Stat) -> (u64, u64) {
    (facts.st_dev as u64, facts.st_ino as u64)
}

#[allow(clippy::unnecessary_cast, reason = "as above")]
fn changed(facts: &Stat) -> (u64, u64) {
    (facts.st_ctime as u64, facts.st_ctime_nsec as u64)
}

/// Whether a name has gone since it was listed, or stands for something else by now, which was never granted.
fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        root: PathBuf,
    }

    impl World {
        fn with(folders: &[&str], files: &[&str]) -> World {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            folders.iter().for_each(|name| std::fs::create_dir_all(root.join(name)).unwrap());
            files.iter().for_each(|name| std::fs::write(root.join(name), "").unwrap());
            World { _folder: folder, root }
        }

        fn taken(&self) -> Inventory {
            let shows = |path: &Path| !path.ends_with(".env") && !path.ends_with("secret");
            take(&self.root, MOST_BEFORE, shows)
        }
    }

    #[test]
    fn hidden_and_protected_names_are_found_and_not_entered() {
        let world = World::with(
            &[".git/hooks/deep", "src", "secret/.vscode"],
            &[".git/config", ".git/HEAD", "src/.env", "src/main.rs", "secret/key"],
        );
        let root = &world.root;
        std::os::unix::fs::symlink("/etc/profile", root.join(".profile")).unwrap();
        let found = world.taken().whole().unwrap();
        let mut hidden = found.hidden.clone();
        hidden.sort();
        assert_eq!(hidden, [root.join("secret"), root.join("src/.env")]);
        let kept: Vec<_> = found.mountable().cloned().collect();
        assert_eq!(kept, [root.join(".git/config"), root.join(".git/hooks")]);
        assert!(
            found.kept.contains_key(&root.join(".profile")),
            "a link is known, though no mount can hold it"
        );

        std::fs::write(root.join("src/.git"), "gitdir: ../elsewhere").unwrap();
        assert!(world.taken().kept.contains_key(&root.join("src/.git")), "it leads git elsewhere");
    }

    #[test]
    fn folders_that_rules_reach_something_by_are_pinned() {
        let world = World::with(
            &["a/b/secret", "plain", "project/.vscode", "repo/.git", ".local/share/keyrings"],
            &["a/.env", "repo/.git/config"],
        );
        let found = world.taken();
        let pinned = |writable: &[PathBuf]| -> Vec<PathBuf> { found.pinned(writable).into_iter().collect() };
        let expect = [".local", ".local/share", "a", "a/b", "repo/.git"].map(|name| world.root.join(name));
        assert_eq!(pinned(std::slice::from_ref(&world.root)), expect);
        assert_eq!(pinned(&[world.root.join("a")]), [world.root.join("a/b")], "what may be changed");
        assert_eq!(pinned(&[]), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_is_too_deep_to_be_named_is_told_and_the_rest_is_found() {
        let world = World::with(&["a", "z/.vscode"], &[]);
        let name = "d".repeat(200);
        let mut folder = folder::open(&world.root.join("a"), OFlags::RDONLY).unwrap();
        for _ in 0..40 {
            rustix::fs::mkdirat(&folder, &name, rustix::fs::Mode::RWXU).unwrap();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            folder = rustix::fs::openat(&folder, &name, flags, rustix::fs::Mode::empty()).unwrap();
        }
        let found = world.taken().whole().unwrap();
        assert_eq!(found.unlisted.len(), 1, "one folder, and nothing below it");
        assert!(found.unlisted[0].starts_with(world.root.join("a")) && found.unlisted[0].is_dir());
        assert!(found.kept.contains_key(&world.root.join("z/.vscode")));
    }

    #[test]
    fn what_was_found_before_a_bound_was_reached_is_kept() {
        let world = World::with(&["many", ".vscode"], &[]);
        (0..20).for_each(|number| std::fs::write(world.root.join(format!("many/{number}")), "").unwrap());
        assert!(take(&world.root, 22, |_| true).whole().is_ok());
        let found = take(&world.root, 21, |_| true);
        assert!(found.kept.contains_key(&world.root.join(".vscode")), "{found:?}");
        assert!(matches!(found.whole(), Err(SandboxError::TooLarge { limit: 21, .. })));
        let names: Vec<PathBuf> = (0..=MOST_NAMES).map(|number| PathBuf::from(number.to_string())).collect();
        assert!(refuse_too_many(names.iter().skip(1)).is_ok());
        assert!(matches!(refuse_too_many(names.iter()), Err(SandboxError::TooManyNames { .. })));
    }
}
