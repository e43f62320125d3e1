//! Quarantine: renames new files that other programs run automatically, before the result of the run is
//! returned. Governance defines which names these are.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::SandboxError;
use crate::scan::open_folder;
use crate::scan::open_folder::TemporaryAccess;

/// A file that a program created, and its new path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Path at which it was created.
    pub path: PathBuf,
    /// Path after the rename, where nothing runs it; absent if it could not be moved.
    pub moved_to: Option<PathBuf>,
}

/// Suffix of a quarantined name.
const SUFFIX: &str = "quarantined";
/// Longest name that file systems accept.
const MAX_NAME_BYTES: usize = 255;
/// Attempts with a random name, of which one is free.
const MAX_ATTEMPTS: usize = 8;

/// Renames a file in its folder, so that other programs do not find it under the name they act on. Returns
/// `None` if it no longer exists.
pub(crate) fn quarantine(path: &Path) -> Option<Quarantined> {
    let moved_to = match rename_to_quarantine(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, path = ?path, "could not quarantine a leftover file");
            None
        }
        Ok(moved_to) => Some(moved_to),
    };
    Some(Quarantined { path: path.to_owned(), moved_to })
}

fn rename_to_quarantine(path: &Path) -> io::Result<PathBuf> {
    let above = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    match rename_in(above, path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The program removed the permissions of the folder.
            let _open = TemporaryAccess::grant(above)?;
            rename_in(above, path)
        }
        renamed => renamed,
    }
}

fn rename_in(above: &Path, path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = open_folder::open(above, open_folder::HANDLE)?;
    for _ in 0..MAX_ATTEMPTS {
        let new_name = quarantine_name(name, random_number());
        match renameat_with(&folder, name, &folder, &new_name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(path.with_file_name(new_name)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns a number that no program can guess.
fn random_number() -> u64 {
    RandomState::new().hash_one(SystemTime::now())
}

/// Returns the quarantine name, cut to the longest length that file systems accept.
fn quarantine_name(name: &OsStr, number: u64) -> OsString {
    let ending = format!(".{SUFFIX}-{number:016x}");
    let most = MAX_NAME_BYTES - ending.len();
    let prefix = name.as_bytes().get(..most).unwrap_or(name.as_bytes());
    let mut new_name = OsStr::from_bytes(prefix).to_owned();
    new_name.push(ending);
    new_name
}

/// Files of earlier runs of this process that could not be quarantined. As long as one exists, nothing runs in
/// its folder, so that it is not mistaken for the user's own file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers {
    paths: Arc<Mutex<Vec<PathBuf>>>,
}

impl Leftovers {
    pub(crate) fn add(&self, names: impl Iterator<Item = PathBuf>) {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// Tries again to quarantine leftovers in these folders, and fails if one remains. Blocks on the disk.
    pub(crate) fn retry_or_refuse(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        let mut names = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let is_here = |name: &Path| folders.iter().any(|folder| name.starts_with(folder));
        names.retain(|name| {
            !is_here(name) || quarantine(name).is_some_and(|quarantined| quarantined.moved_to.is_none())
        });
        match names.iter().find(|name| is_here(name)) {
            Some(name) => Err(SandboxError::LeftoverPresent(name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn quarantine_keeps_content_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = folder.join(".bashrc");
        for round in ["first", "second"] {
            std::fs::write(&path, round).unwrap();
            let moved = quarantine(&path).unwrap().moved_to.unwrap();
            assert!(!path.exists());
            assert_eq!(std::fs::read_to_string(moved).unwrap(), round);
        }
        assert_eq!(quarantine(&path), None, "the file does not exist");
        let (elsewhere, link) = (folder.join("elsewhere"), folder.join("link"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join(".bashrc"), "not the program's").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let through = quarantine(&link.join(".bashrc")).unwrap();
        assert_eq!(through.moved_to, None, "symbolic links are not followed");
        assert!(elsewhere.join(".bashrc").exists());
    }

    #[test]
    fn quarantine_works_in_folders_without_permissions() {
        ::tests::drop_root_permanently();
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().canonicalize().unwrap().join("closed");
        for mode in [0o555, 0o444, 0o111, 0o000] {
            std::fs::create_dir(&closed).unwrap();
            std::fs::write(closed.join(".bashrc"), "evil").unwrap();
            std::fs::set_permissions(&closed, Permissions::from_mode(mode)).unwrap();
            let quarantined = quarantine(&closed.join(".bashrc")).unwrap();
            let now = std::fs::metadata(&closed).unwrap().permissions().mode() & 0o777;
            std::fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
            assert!(quarantined.moved_to.unwrap().exists(), "{mode:o}");
            assert_eq!(now, mode);
            std::fs::remove_dir_all(&closed).unwrap();
        }
    }

    #[test]
    fn longest_name_is_quarantined_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("n".repeat(MAX_NAME_BYTES));
        for _ in 0..12 {
            std::fs::create_dir(&path).unwrap();
            assert!(quarantine(&path).unwrap().moved_to.unwrap().is_dir());
            assert!(!path.exists());
        }
    }
}
