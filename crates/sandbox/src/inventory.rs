//! What is in the granted folders that a confined program must not see, or must not change. Mounts need names that
//! exist, so the folders are looked through before each run, and again after it for what is new.
//!
//! What was found is kept whatever came in between: a folder that cannot be looked into, or a bound that was reached,
//! is part of the answer. How folders are looked through is not said here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::bounds::{MOST_NAME_BYTES, MOST_NAMES};
use crate::error::SandboxError;
use crate::identity::{Held, Number};

/// What was found in the granted folders.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Names that may not be read.
    pub(crate) hidden: Vec<Held>,
    /// Protected names, which may be read and not changed.
    pub(crate) kept: BTreeMap<PathBuf, Kept>,
    /// Folders that git would take for repositories, whatever their names are.
    pub(crate) repositories: BTreeSet<PathBuf>,
    /// Folders that cannot be listed. What is in them can be reached all the same, by whoever knows it.
    pub(crate) closed: Vec<Held>,
    /// Folders too deep to be named from here, which can be reached step by step.
    pub(crate) deep: Vec<Held>,
    /// Why this is not all.
    pub(crate) problem: Option<SandboxError>,
}

/// A protected name, and which file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) file: Number,
    /// When that file was made: numbers of files are given out again.
    pub(crate) made: (u64, u64),
    pub(crate) folder: Number,
    pub(crate) is_link: bool,
    /// Whether it is one only because its folder is a repository.
    pub(crate) is_of_repository: bool,
}

impl Inventory {
    /// What a mount can hold in place, which a link is not.
    pub(crate) fn mountable(&self) -> impl Iterator<Item = Held> {
        let files = self.kept.iter().filter(|(_, kept)| !kept.is_link);
        files.map(|(path, kept)| Held { path: path.clone(), file: kept.file })
    }

    /// What must not be seen. What cannot be looked through is hidden whole.
    pub(crate) fn out_of_sight(&self) -> impl Iterator<Item = &Held> {
        self.hidden.iter().chain(&self.closed).chain(&self.deep)
    }

    /// How many names are remembered here.
    pub(crate) fn count(&self) -> usize {
        let out_of_sight = self.hidden.len() + self.closed.len() + self.deep.len();
        out_of_sight + self.kept.len() + self.repositories.len()
    }

    /// All of them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Path> {
        let held = self.out_of_sight().map(|held| held.path.as_path());
        held.chain(self.kept.keys().chain(&self.repositories).map(PathBuf::as_path))
    }

    /// Adds what another folder has.
    pub(crate) fn extend(&mut self, other: Inventory) {
        self.hidden.extend(other.hidden);
        self.kept.extend(other.kept);
        self.repositories.extend(other.repositories);
        self.closed.extend(other.closed);
        self.deep.extend(other.deep);
        self.problem = self.problem.take().or(other.problem);
    }

    /// Hides these as well, whatever else they are.
    pub(crate) fn hide(&mut self, names: Vec<Held>) {
        for held in &names {
            self.kept.remove(&held.path);
        }
        self.hidden.extend(names);
    }

    /// All that there is, or why it is not all.
    pub(crate) fn whole(mut self) -> Result<Inventory, SandboxError> {
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => Ok(self),
        }
    }

    /// Folders that must keep their names, because what is hidden, protected or granted is reached by them: another run
    /// would be told of it under a name that is gone. Nobody inside can rename what lies outside the folders that may be
    /// changed.
    pub(crate) fn pinned(&self, writable: &[PathBuf], readable: &[PathBuf]) -> BTreeSet<PathBuf> {
        let is_inside =
            |path: &Path| writable.iter().any(|folder| path != folder.as_path() && path.starts_with(folder));
        let held = self.out_of_sight().map(|held| held.path.as_path());
        let held = held.chain(self.kept.keys().map(PathBuf::as_path));
        let granted = writable.iter().chain(readable).map(PathBuf::as_path);
        let mut pinned = BTreeSet::new();
        for path in held.chain(granted) {
            for folder in path.ancestors().skip(1).take_while(|above| is_inside(above)) {
                if !pinned.insert(folder.to_owned()) {
                    break;
                }
            }
        }
        // Each of these is a mount of its own, which holds its name as well.
        for root in writable.iter().chain(readable) {
            pinned.remove(root);
        }
        pinned
    }
}

/// Refuses names that are too many to be held, and says where most of them are.
pub(crate) fn refuse_too_many<'a>(
    names: impl Iterator<Item = &'a Path>,
    roots: &[&Path],
) -> Result<(), SandboxError> {
    let (mut count, mut bytes) = (0_usize, 0_usize);
    let names: Vec<&Path> =
        names.inspect(|name| (count, bytes) = (count + 1, bytes + name.as_os_str().len())).collect();
    match count > MOST_NAMES || bytes > MOST_NAME_BYTES {
        true => Err(too_many(names.into_iter(), roots)),
        false => Ok(()),
    }
}

/// That these are too many, and where most of them are.
pub(crate) fn too_many<'a>(names: impl Iterator<Item = &'a Path>, roots: &[&Path]) -> SandboxError {
    let mut places = BTreeMap::<PathBuf, usize>::new();
    for name in names {
        *places.entry(place_of(name, roots)).or_default() += 1;
    }
    let count = places.values().sum();
    let most = places.into_iter().max_by_key(|(_, count)| *count);
    SandboxError::TooManyNames { count, most_in: most.map(|(place, _)| place).unwrap_or_default() }
}

/// What of a granted folder a name is in: the granted folder itself, or the one of its folders that leads there.
fn place_of(name: &Path, roots: &[&Path]) -> PathBuf {
    let root = roots.iter().find(|root| name.starts_with(root)).copied().unwrap_or(Path::new("/"));
    let above = name.parent().unwrap_or(root);
    let first = above.strip_prefix(root).ok().and_then(|rest| rest.components().next());
    first.map_or_else(|| root.to_owned(), |first| root.join(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(path: &str) -> Held {
        Held { path: path.into(), file: (1, 2) }
    }

    #[test]
    fn folders_that_something_is_reached_by_are_pinned() {
        let kept =
            Kept { file: (1, 2), made: (3, 4), folder: (5, 6), is_link: false, is_of_repository: false };
        let found = Inventory {
            hidden: vec![held("/w/a/b/secret"), held("/w/a/.env"), held("/etc/secret")],
            closed: vec![held("/w/shut/d")],
            deep: vec![held("/w/deep/d")],
            kept: [("/w/repo/.git/config".into(), kept), ("/w/.bashrc".into(), kept)].into(),
            ..Inventory::default()
        };
        let check = |writable: &[&str], readable: &[&str], expect: &[&str]| {
            let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
            let pinned: Vec<PathBuf> = found.pinned(&paths(writable), &paths(readable)).into_iter().collect();
            assert_eq!(pinned, paths(expect));
        };
        let all = ["/w/a", "/w/a/b", "/w/deep", "/w/repo", "/w/repo/.git", "/w/shut"];
        check(&["/w"], &[], &all);
        check(&["/w/a"], &[], &["/w/a/b"]);
        check(&[], &["/w"], &[]);
        // What is granted in another way than what it lies in keeps its place, too.
        check(&["/w/x"], &["/w/x/y/z"], &["/w/x/y"]);
        check(&["/w", "/w/a"], &[], &["/w/a/b", "/w/deep", "/w/repo", "/w/repo/.git", "/w/shut"]);
    }

    #[test]
    fn too_many_names_are_refused_with_where_most_of_them_are() {
        let names: Vec<PathBuf> = (0..=MOST_NAMES).map(|n| format!("/w/many/{n}/.env").into()).collect();
        let names = || names.iter().map(PathBuf::as_path);
        let roots = [Path::new("/w")];
        assert!(refuse_too_many(names().skip(1), &roots).is_ok());
        let few = [Path::new("/w/.bashrc"), Path::new("/w/few/.env")];
        let refused = refuse_too_many(names().chain(few), &roots).unwrap_err();
        assert!(refused.to_string().contains("`/w/many`"), "{refused}");
    }
}
