//! What a program newly created under a name that something runs by itself is put out of reach before its result is
//! handed on. Which names those are is the policy's floor to say.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::folder;
use crate::loosened::Loosened;

/// A name a program created, and what it is called now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// As it was created.
    pub path: PathBuf,
    /// Where it is now, inert; absent if it could not be moved.
    pub moved_to: Option<PathBuf>,
}

/// What is added to a name that is put out of reach.
const SUFFIX: &str = "quarantined";
/// The longest name a file system takes.
const LONGEST_NAME: usize = 255;
/// Names nobody can have foreseen: one of them is free.
const TRIES: usize = 8;

/// Renames what a program created, beside where it was, so that nothing finds it under the name it acts on. Nothing, if
/// nothing is there any more.
pub(crate) fn quarantine(path: &Path) -> Option<Quarantined> {
    let moved_to = match set_aside(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, path = ?path, "what a run left behind could not be set aside");
            None
        }
        Ok(moved_to) => Some(moved_to),
    };
    Some(Quarantined { path: path.to_owned(), moved_to })
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let above = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    match rename_in(above, path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The program closed the folder over it.
            let _open = Loosened::of(above)?;
            rename_in(above, path)
        }
        renamed => renamed,
    }
}

fn rename_in(above: &Path, path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = folder::open(above, folder::HANDLE)?;
    for _ in 0..TRIES {
        let aside = inert(name, unforeseen());
        match renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(path.with_file_name(aside)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A number that no program can have guessed.
fn unforeseen() -> u64 {
    RandomState::new().hash_one(SystemTime::now())
}

/// The name with its ending, cut where both together would be too long for a file system.
fn inert(name: &OsStr, number: u64) -> OsString {
    let ending = format!(".{SUFFIX}-{number:016x}");
    let most = LONGEST_NAME - ending.len();
    let kept = name.as_bytes().get(..most).unwrap_or(name.as_bytes());
    let mut aside = OsStr::from_bytes(kept).to_owned();
    aside.push(ending);
    aside
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_set_aside_keeps_its_content_and_never_replaces_anything() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = folder.join(".bashrc");
        for round in ["first", "second"] {
            std::fs::write(&path, round).unwrap();
            let moved = quarantine(&path).unwrap().moved_to.unwrap();
            assert!(!path.exists());
            assert_eq!(std::fs::read_to_string(moved).unwrap(), round);
        }
        assert_eq!(quarantine(&path), None, "nothing is there");
        let (elsewhere, link) = (folder.join("elsewhere"), folder.join("link"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join(".bashrc"), "not the program's").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let through = quarantine(&link.join(".bashrc")).unwrap();
        assert_eq!(through.moved_to, None, "no link is gone through");
        assert!(elsewhere.join(".bashrc").exists());
    }

    #[test]
    fn a_folder_that_was_closed_over_it_stops_nothing_and_is_closed_again() {
        ::tests::give_up_root_for_good();
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().canonicalize().unwrap().join("closed");
        for mode in [0o555, 0o444, 0o111, 0o000] {
            std::fs::create_dir(&closed).unwrap();
            std::fs::write(closed.join(".bashrc"), "evil").unwrap();
            std::fs::set_permissions(&closed, Permissions::from_mode(mode)).unwrap();
            let aside = quarantine(&closed.join(".bashrc")).unwrap();
            let now = std::fs::metadata(&closed).unwrap().permissions().mode() & 0o777;
            std::fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
            assert!(aside.moved_to.unwrap().exists(), "{mode:o}");
            assert_eq!(now, mode);
            std::fs::remove_dir_all(&closed).unwrap();
        }
    }

    #[test]
    fn the_longest_name_is_set_aside_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("n".repeat(LONGEST_NAME));
        for _ in 0..12 {
            std::fs::create_dir(&path).unwrap();
            assert!(quarantine(&path).unwrap().moved_to.unwrap().is_dir());
            assert!(!path.exists());
        }
    }
}
