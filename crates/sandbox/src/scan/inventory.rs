//! Paths in the granted folders that a confined program must not see or must not change. Mounts need existing
//! paths, so the folders are scanned before each run, and again after it for new ones.
//!
//! Partial results are kept: a folder that cannot be listed, or a bound that was reached, is part of the
//! result. The scan itself is in `scan`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::SandboxError;
use crate::scan::bounds::{MAX_MOUNTED_PATH_BYTES, MAX_MOUNTED_PATHS};
use crate::scan::file_identity::{ExpectedFile, FileId};

/// Result of a scan of the granted folders.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Paths that may not be read.
    pub(crate) hidden: Vec<ExpectedFile>,
    /// Protected paths, which may be read but not changed.
    pub(crate) protected: BTreeMap<PathBuf, ProtectedFile>,
    /// Folders that git would take for repositories, whatever their names.
    pub(crate) repositories: BTreeSet<PathBuf>,
    /// Folders that cannot be listed. A program that knows the names inside can still reach them.
    pub(crate) unlistable: Vec<ExpectedFile>,
    /// Folders whose paths are too long, but which can be reached step by step.
    pub(crate) too_deep: Vec<ExpectedFile>,
    /// Reason why the result is incomplete.
    pub(crate) error: Option<SandboxError>,
}

/// A protected path, with the identity of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtectedFile {
    pub(crate) file: FileId,
    /// Creation time, because inode numbers are reused.
    pub(crate) created: (u64, u64),
    pub(crate) parent: FileId,
    pub(crate) is_symlink: bool,
    /// True if it is protected only because its folder is a repository.
    pub(crate) is_in_repository: bool,
}

impl Inventory {
    /// Returns the protected paths that a mount can protect, which excludes symbolic links.
    pub(crate) fn mountable(&self) -> impl Iterator<Item = ExpectedFile> {
        let files = self.protected.iter().filter(|(_, protected_file)| !protected_file.is_symlink);
        files.map(|(path, protected_file)| ExpectedFile { path: path.clone(), file: protected_file.file })
    }

    /// Returns the paths that must not be visible. Folders that cannot be scanned are hidden as a whole.
    pub(crate) fn hidden_paths(&self) -> impl Iterator<Item = &ExpectedFile> {
        self.hidden.iter().chain(&self.unlistable).chain(&self.too_deep)
    }

    /// Returns the number of paths.
    pub(crate) fn count(&self) -> usize {
        let out_of_sight = self.hidden.len() + self.unlistable.len() + self.too_deep.len();
        out_of_sight + self.protected.len() + self.repositories.len()
    }

    /// Returns all paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let paths = self.hidden_paths().map(|expected| expected.path.as_path());
        paths.chain(self.protected.keys().chain(&self.repositories).map(PathBuf::as_path))
    }

    /// Adds the result of another folder.
    pub(crate) fn extend(&mut self, other: Inventory) {
        self.hidden.extend(other.hidden);
        self.protected.extend(other.protected);
        self.repositories.extend(other.repositories);
        self.unlistable.extend(other.unlistable);
        self.too_deep.extend(other.too_deep);
        self.error = self.error.take().or(other.error);
    }

    /// Hides these paths too, even if they were protected.
    pub(crate) fn hide(&mut self, names: Vec<ExpectedFile>) {
        for expected in &names {
            self.protected.remove(&expected.path);
        }
        self.hidden.extend(names);
    }

    /// Returns the result, or an error if it is incomplete.
    pub(crate) fn into_complete(mut self) -> Result<Inventory, SandboxError> {
        match self.error.take() {
            Some(problem) => Err(problem),
            None => Ok(self),
        }
    }

    /// Returns the folders that must not be renamed, because the path of a hidden, protected or granted file
    /// leads through them. After a rename, another run would use a path that no longer exists. Confined
    /// programs cannot rename anything outside the writable folders.
    pub(crate) fn pinned_folders(&self, writable: &[PathBuf], readable: &[PathBuf]) -> BTreeSet<PathBuf> {
        let is_inside =
            |path: &Path| writable.iter().any(|folder| path != folder.as_path() && path.starts_with(folder));
        let paths = self.hidden_paths().map(|expected| expected.path.as_path());
        let paths = paths.chain(self.protected.keys().map(PathBuf::as_path));
        let granted = writable.iter().chain(readable).map(PathBuf::as_path);
        let mut pinned = BTreeSet::new();
        for path in paths.chain(granted) {
            for folder in path.ancestors().skip(1).take_while(|above| is_inside(above)) {
                if !pinned.insert(folder.to_owned()) {
                    break;
                }
            }
        }
        // Each granted folder is a mount, which cannot be renamed anyway.
        for root in writable.iter().chain(readable) {
            pinned.remove(root);
        }
        pinned
    }
}

/// Fails if there are too many paths to mount, naming the folder with most of them.
pub(crate) fn check_path_count<'a>(
    names: impl Iterator<Item = &'a Path>,
    roots: &[&Path],
) -> Result<(), SandboxError> {
    let (mut count, mut bytes) = (0_usize, 0_usize);
    let names: Vec<&Path> =
        names.inspect(|name| (count, bytes) = (count + 1, bytes + name.as_os_str().len())).collect();
    match count > MAX_MOUNTED_PATHS || bytes > MAX_MOUNTED_PATH_BYTES {
        true => Err(too_many_paths(names.into_iter(), roots)),
        false => Ok(()),
    }
}

/// Returns the error for too many paths, with the folder that contains most of them.
pub(crate) fn too_many_paths<'a>(names: impl Iterator<Item = &'a Path>, roots: &[&Path]) -> SandboxError {
    let mut counts_by_folder = BTreeMap::<PathBuf, usize>::new();
    for name in names {
        *counts_by_folder.entry(top_level_folder(name, roots)).or_default() += 1;
    }
    let count = counts_by_folder.values().sum();
    let most = counts_by_folder.into_iter().max_by_key(|(_, count)| *count);
    SandboxError::TooManyPaths { count, most_in: most.map(|(folder, _)| folder).unwrap_or_default() }
}

/// Returns the top-level folder of a path within its granted folder, or the granted folder itself.
fn top_level_folder(name: &Path, roots: &[&Path]) -> PathBuf {
    let root = roots.iter().find(|root| name.starts_with(root)).copied().unwrap_or(Path::new("/"));
    let above = name.parent().unwrap_or(root);
    let first = above.strip_prefix(root).ok().and_then(|rest| rest.components().next());
    first.map_or_else(|| root.to_owned(), |first| root.join(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(path: &str) -> ExpectedFile {
        ExpectedFile { path: path.into(), file: (1, 2) }
    }

    #[test]
    fn parent_folders_of_known_paths_are_pinned() {
        let kept = ProtectedFile {
            file: (1, 2),
            created: (3, 4),
            parent: (5, 6),
            is_symlink: false,
            is_in_repository: false,
        };
        let found = Inventory {
            hidden: vec![expected("/w/a/b/secret"), expected("/w/a/.env"), expected("/etc/secret")],
            unlistable: vec![expected("/w/shut/d")],
            too_deep: vec![expected("/w/deep/d")],
            protected: [("/w/repo/.git/config".into(), kept), ("/w/.bashrc".into(), kept)].into(),
            ..Inventory::default()
        };
        let check = |writable: &[&str], readable: &[&str], expect: &[&str]| {
            let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
            let pinned: Vec<PathBuf> =
                found.pinned_folders(&paths(writable), &paths(readable)).into_iter().collect();
            assert_eq!(pinned, paths(expect));
        };
        let all = ["/w/a", "/w/a/b", "/w/deep", "/w/repo", "/w/repo/.git", "/w/shut"];
        check(&["/w"], &[], &all);
        check(&["/w/a"], &[], &["/w/a/b"]);
        check(&[], &["/w"], &[]);
        // A folder granted differently from the folder that contains it cannot be renamed either.
        check(&["/w/x"], &["/w/x/y/z"], &["/w/x/y"]);
        check(&["/w", "/w/a"], &[], &["/w/a/b", "/w/deep", "/w/repo", "/w/repo/.git", "/w/shut"]);
    }

    #[test]
    fn too_many_paths_are_refused_naming_the_largest_folder() {
        let names: Vec<PathBuf> =
            (0..=MAX_MOUNTED_PATHS).map(|n| format!("/w/many/{n}/.env").into()).collect();
        let names = || names.iter().map(PathBuf::as_path);
        let roots = [Path::new("/w")];
        assert!(check_path_count(names().skip(1), &roots).is_ok());
        let few = [Path::new("/w/.bashrc"), Path::new("/w/few/.env")];
        let refused = check_path_count(names().chain(few), &roots).unwrap_err();
        assert!(refused.to_string().contains("`/w/many`"), "{refused}");
    }
}
