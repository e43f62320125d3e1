//! Path of this program that survives an upgrade: for service files, for hooks, and for a restart in place.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::exit::CommandError;

/// Returns the path of this program. A name in PATH or the path that it was started by is preferred to the file that
/// a link leads to, because an upgrade replaces the link.
pub(crate) fn stable_program_path() -> Result<PathBuf, CommandError> {
    let here = std::env::current_exe().and_then(std::fs::canonicalize);
    let here = here
        .map_err(|error| CommandError::usage(format!("the path of this program cannot be found: {error}")))?;
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let started_by = std::env::args_os().next();
    Ok(stable_path_of(here, &folders, started_by.as_deref()))
}

fn stable_path_of(here: PathBuf, search_path: &OsStr, started_by: Option<&OsStr>) -> PathBuf {
    let named = std::env::split_paths(search_path).map(|folder| folder.join("sinew"));
    let started_by = started_by.map(Path::new).filter(|path| path.components().count() > 1);
    let started_by = started_by.and_then(|path| std::path::absolute(path).ok());
    let mut candidates = named.filter(|path| path.is_absolute()).chain(started_by);
    candidates.find(|path| resolves_to(path, &here)).unwrap_or(here)
}

fn resolves_to(path: &Path, here: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|real| real == here)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_preferred_to_its_versioned_target() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let [bin, other, cellar] = ["bin", "other", "cellar/1.0"].map(|name| folder.join(name));
        for name in [&bin, &other, &cellar] {
            std::fs::create_dir_all(name).unwrap();
        }
        let target = cellar.join("sinew");
        std::fs::write(&target, "program").unwrap();
        let check = |folders: &[&PathBuf], started_by: &Path, expect: &Path| {
            let search_path = std::env::join_paths(folders).unwrap();
            let found = stable_path_of(target.clone(), &search_path, Some(started_by.as_os_str()));
            assert_eq!(found, expect, "{folders:?} {started_by:?}");
        };
        check(&[&bin], Path::new("sinew"), &target);
        symlink(&target, bin.join("sinew")).unwrap();
        check(&[&bin], &target, &bin.join("sinew"));
        check(&[], &bin.join("sinew"), &bin.join("sinew"));
        check(&[], Path::new("sinew"), &target);
        // Another program of this name comes first in PATH.
        std::fs::write(other.join("sinew"), "another").unwrap();
        check(&[&other, &bin], &target, &bin.join("sinew"));
        check(&[&other], &bin.join("sinew"), &bin.join("sinew"));
    }
}
