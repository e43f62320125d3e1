//! Checks whether a change can be undone: its result and its saved state must both be unchanged.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::FileType;
use rustix::io::Errno;
use tool::definition::PathAccess;

use super::UndoStore;
use super::created_tree;
use super::record::{SavedAs, StateAfter, StateBefore, UndoRecord};
use super::store_folder::{StoreFolder, saved_object_name};
use crate::error::AccessError;
use crate::git_directory;
use crate::links::HardLinkNames;
use crate::opened::{CreationTarget, EntryLocation, OpenedObject, OpenedPath};
use crate::platform;
use crate::request::PathEnding;
use crate::resolve::has_path;
use crate::tree;
use crate::unresolved::UnresolvedReason;

impl UndoStore {
    /// Returns the object that the change left, if it is unchanged and the saved state is unchanged too.
    pub(super) fn check_revertible(
        &self,
        folder: &StoreFolder,
        record: &UndoRecord,
    ) -> Result<OpenedPath, AccessError> {
        if let StateAfter::Folders { below, .. } = &record.after {
            return created_tree::removable_part(record, below);
        }
        let target = open_recorded_location(Path::new(&record.folder), &record.leaf)?;
        // What a change created is removed by its reversal, which cannot complete a git directory.
        let writes = !matches!(record.before, StateBefore::Absent);
        if let Some(entry) = target.git_entry.filter(|_| writes) {
            return Err(AccessError::GitDirectory { path: record.path(), entry });
        }
        let conflict = |found: String| Err(AccessError::Conflict { path: record.path(), found });
        match (&record.after, &target.object) {
            (StateAfter::Absent, OpenedObject::Unresolved { .. }) => {
                self.check_seal(&folder.handle, OsStr::new(&saved_object_name(&record.key())), record)?;
                Ok(target)
            }
            (StateAfter::Absent, _) => conflict("something else has its name now".to_owned()),
            (StateAfter::File { sha256 }, OpenedObject::File { .. }) => {
                let now = target.sha256()?;
                if now == *sha256 {
                    Ok(target)
                } else {
                    conflict(format!("its sha256 is now {now}, the call had left {sha256}"))
                }
            }
            (StateAfter::File { .. }, OpenedObject::Unresolved { .. }) => {
                conflict("it does not exist any more".to_owned())
            }
            (StateAfter::File { .. } | StateAfter::Folders { .. }, _) => {
                conflict("it is not a file any more".to_owned())
            }
        }
    }

    /// Checks that an entry is still what was removed. Moving an object into the store does not close it for
    /// processes that have it open, nor for its other hard links. Restoring a changed object would write
    /// content that was never judged.
    pub(super) fn check_seal(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        record: &UndoRecord,
    ) -> Result<(), AccessError> {
        let SavedAs::Moved { seal } = record.saved_as() else { return Ok(()) };
        let now = tree::seal(folder, name)
            .map_err(|error| AccessError::io("inspecting the saved state of", &record.path(), error))?;
        if seal.as_deref() == Some(now.as_str()) {
            return Ok(());
        }
        Err(AccessError::SavedObjectChanged {
            path: record.path(),
            saved: self.path.join(saved_object_name(&record.key())),
        })
    }
}

/// Opens the folder of a change by the path that was judged. The path must not contain a symbolic link, as it
/// did not then.
pub(super) fn open_recorded_folder(name: &Path, leaf: &OsStr) -> Result<OwnedFd, AccessError> {
    let folder = platform::open_handle_nofollow(name).ok().filter(|found| has_path(found, name));
    folder.ok_or_else(|| AccessError::Unresolved {
        path: name.join(leaf),
        reason: UnresolvedReason::ParentMissing,
    })
}

/// Opens the location of a change by the path that was judged.
pub(super) fn open_recorded_location(folder_name: &Path, leaf: &OsStr) -> Result<OpenedPath, AccessError> {
    let (folder, path) = (open_recorded_folder(folder_name, leaf)?, folder_name.join(leaf));
    let leaf = leaf.to_owned();
    let status = match platform::status_at(&folder, &leaf) {
        Ok(status) => Some(status),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(AccessError::io("inspecting", &path, errno)),
    };
    let handle = match &status {
        Some(status) if matches!(status.kind, FileType::RegularFile | FileType::Directory) => {
            let handle = platform::open_handle_nofollow(&path);
            Some(handle.map_err(|errno| AccessError::io("opening", &path, errno))?)
        }
        _ => None,
    };
    let location = EntryLocation { folder, folder_path: folder_name.to_owned(), leaf };
    let object = match (status, handle) {
        (None, _) => {
            let creation_target =
                CreationTarget { location, missing_below: Vec::new(), ending: PathEnding::Unspecified };
            OpenedObject::Unresolved {
                reason: UnresolvedReason::Absent,
                creation_target: Some(creation_target),
            }
        }
        (Some(seen), Some(handle)) if seen.kind == FileType::RegularFile => {
            OpenedObject::File { handle, facts: seen.facts, location: Some(location) }
        }
        (Some(seen), Some(handle)) => {
            OpenedObject::Directory { handle, facts: seen.facts, location: Some(location) }
        }
        (Some(seen), None) => {
            OpenedObject::Special { name: crate::opened::special_kind_name(seen.kind), facts: seen.facts }
        }
    };
    Ok(OpenedPath {
        key: "path".into(),
        as_typed: path.clone(),
        git_entry: git_directory::entry_at(&path),
        canonical: path,
        access: PathAccess::Remove,
        object,
        other_names: HardLinkNames::Known(Vec::new()),
        prefetched: OnceLock::new(),
    })
}
