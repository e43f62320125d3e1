//! Undo of created folders: removes those that hold nothing else. The outermost of them is removed as a whole
//! by one rename.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::record::{StateAfter, UndoRecord};
use super::revert_check::{open_recorded_folder, open_recorded_location};
use crate::error::AccessError;
use crate::list::{EntryKind, first_names};
use crate::opened::OpenedPath;
use crate::platform;
use crate::replace::file_sha256;
use crate::tree::{self, TreeEntry};

/// Folders that a call created below a target, with a file at the end if there is a digest.
#[derive(Debug)]
pub(crate) struct CreatedTree {
    relative_path: PathBuf,
    sha256: Option<String>,
}

impl CreatedTree {
    /// Returns what the call created below the target.
    pub(super) fn below_target(record: &UndoRecord, target: &OpenedPath) -> CreatedTree {
        let (last, sha256) = innermost(record);
        let relative_path = last.strip_prefix(target.canonical()).map(Path::to_owned).unwrap_or_default();
        CreatedTree { relative_path, sha256 }
    }

    /// Returns true if the call created this entry and it is unchanged.
    pub(crate) fn contains(&self, found: &TreeEntry<'_>) -> bool {
        let is_last = found.relative == self.relative_path;
        match &self.sha256 {
            Some(sha256) if is_last => {
                let now = found.reader().and_then(crate::read::FileReader::sha256);
                now.is_ok_and(|now| now == *sha256)
            }
            _ => self.relative_path.starts_with(found.relative) && found.entry.kind == EntryKind::Directory,
        }
    }
}

/// Returns the outermost folder that holds only what the call created, or the file itself if there is no such
/// folder.
pub(super) fn removable_part(
    record: &UndoRecord,
    missing_folders: &[OsString],
) -> Result<OpenedPath, AccessError> {
    let changed =
        |path: &Path, found: &str| AccessError::Conflict { path: path.to_owned(), found: found.to_owned() };
    let (last, sha256) = innermost(record);
    let mut handle = open_recorded_folder(Path::new(&record.folder), &record.leaf)?;
    let mut name = PathBuf::from(&record.folder);
    // Folder and name of the entry to remove.
    let mut goes: Option<(PathBuf, OsString)> = None;
    let steps: Vec<&OsStr> =
        std::iter::once(&record.leaf).chain(missing_folders).map(OsString::as_os_str).collect();
    for (number, step) in steps.iter().enumerate() {
        let path = name.join(step);
        let status =
            platform::status_at(&handle, step).map_err(|_| changed(&path, "it does not exist any more"))?;
        let is_last = number + 1 == steps.len();
        let next = steps.get(number + 1).copied();
        if is_last && let Some(sha256) = &sha256 {
            if status.kind != FileType::RegularFile {
                return Err(changed(&path, "it is not a file any more"));
            }
            let now = file_sha256(&handle, Path::new(step));
            let now = now.map_err(|error| AccessError::io("comparing", &path, error))?;
            if now != *sha256 {
                return Err(changed(&path, &format!("its sha256 is now {now}, the call had left {sha256}")));
            }
            goes.get_or_insert_with(|| (name.clone(), step.to_os_string()));
            break;
        }
        let folder =
            tree::open_folder(&handle, step).map_err(|_| changed(&path, "it is not a folder any more"))?;
        let is_alone = holds_only(&folder, next).map_err(|errno| AccessError::io("reading", &path, errno))?;
        match is_alone {
            true => drop(goes.get_or_insert_with(|| (name.clone(), step.to_os_string()))),
            false => goes = None,
        }
        (handle, name) = (folder, path);
    }
    match goes {
        Some((folder, leaf)) => open_recorded_location(&folder, &leaf),
        None => Err(changed(&last, "it is not empty any more")),
    }
}

/// Returns true if a folder contains exactly this name, or nothing if `name` is `None`.
fn holds_only(folder: &OwnedFd, name: Option<&OsStr>) -> Result<bool, Errno> {
    let (names, _) = first_names(platform::reopen_directory(folder)?, 2)?;
    Ok(names.iter().map(OsString::as_os_str).eq(name))
}

/// Returns the innermost created path, and the digest of the file there.
fn innermost(record: &UndoRecord) -> (PathBuf, Option<String>) {
    match &record.after {
        StateAfter::Folders { below, sha256 } => {
            (record.path().join(below.iter().collect::<PathBuf>()), sha256.clone())
        }
        StateAfter::Absent => (record.path(), None),
        StateAfter::File { sha256 } => (record.path(), Some(sha256.clone())),
    }
}
