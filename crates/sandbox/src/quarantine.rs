//! What a program newly created under a name that something runs by itself is put out of reach before its result is
//! handed on. Which names those are is the policy's floor to say.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::folder;

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

/// Renames what a program created, beside where it was, so that nothing finds it under the name it acts on.
pub(crate) fn quarantine(path: &Path) -> Quarantined {
    Quarantined { path: path.to_owned(), moved_to: set_aside(path).ok() }
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let above = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = folder::open(above, folder::HANDLE)?;
    for number in 0..1000_u32 {
        let aside = inert(name, number);
        match renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(path.with_file_name(aside)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The name with its ending, cut where both together would be too long for a file system.
fn inert(name: &OsStr, number: u32) -> OsString {
    let ending = format!(".{SUFFIX}-{number}");
    let most = LONGEST_NAME - ending.len();
    let kept = name.as_bytes().get(..most).unwrap_or(name.as_bytes());
    let mut aside = OsStr::from_bytes(kept).to_owned();
    aside.push(ending);
    aside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_keeps_its_content_and_never_replaces_anything() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = folder.join(".bashrc");
        for round in ["first", "second"] {
            std::fs::write(&path, round).unwrap();
            let moved = quarantine(&path).moved_to.unwrap();
            assert!(!path.exists());
            assert_eq!(std::fs::read_to_string(moved).unwrap(), round);
        }
        assert_eq!(std::fs::read_to_string(folder.join(".bashrc.quarantined-0")).unwrap(), "first");
        assert_eq!(quarantine(&path).moved_to, None, "nothing is there");
        let (elsewhere, link) = (folder.join("elsewhere"), folder.join("link"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join(".bashrc"), "not the program's").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        assert_eq!(quarantine(&link.join(".bashrc")).moved_to, None, "no link is gone through");
        assert!(elsewhere.join(".bashrc").exists());
    }

    #[test]
    fn the_longest_name_is_set_aside_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("n".repeat(LONGEST_NAME));
        for _ in 0..12 {
            std::fs::create_dir(&path).unwrap();
            assert!(quarantine(&path).moved_to.unwrap().is_dir());
            assert!(!path.exists());
        }
    }
}
