//! Checks whether a change can be undone: its result and its saved state must both be unchanged.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::FileType;
use rustix::io::Errno;
use tool::PathAccess;

use super::UndoStore;
use super::folder::{Folder, before};
use super::made;
use super::record::{After, Before, Held, Record};
use crate::error::AccessError;
use crate::git_directory;
use crate::links::OtherNames;
use crate::obstacle::Obstacle;
use crate::opened::{Object, OpenedPath, Place, Vacancy};
use crate::platform;
use crate::request::Ending;
use crate::resolve::is_named;
use crate::tree;

impl UndoStore {
    /// Returns the object that the change left, if it is unchanged and the saved state is unchanged too.
    pub(super) fn ready(&self, folder: &Folder, record: &Record) -> Result<OpenedPath, AccessError> {
        if let After::Folders { below, .. } = &record.after {
            return made::removable(record, below);
        }
        let target = reach(Path::new(&record.folder), &record.leaf)?;
        // What a change created is removed by its reversal, which cannot complete a git directory.
        let writes = !matches!(record.before, Before::Absent);
        if let Some(entry) = target.git_entry.filter(|_| writes) {
            return Err(AccessError::GitDirectory { path: record.path(), entry });
        }
        let conflict = |found: String| Err(AccessError::Conflict { path: record.path(), found });
        match (&record.after, &target.object) {
            (After::Absent, Object::NotThere { .. }) => {
                self.unbroken(&folder.handle, OsStr::new(&before(&record.key())), record)?;
                Ok(target)
            }
            (After::Absent, _) => conflict("something else has its name now".to_owned()),
            (After::File { sha256 }, Object::File { .. }) => {
                let now = target.sha256()?;
                if now == *sha256 {
                    Ok(target)
                } else {
                    conflict(format!("its sha256 is now {now}, the call had left {sha256}"))
                }
            }
            (After::File { .. }, Object::NotThere { .. }) => {
                conflict("it does not exist any more".to_owned())
            }
            (After::File { .. } | After::Folders { .. }, _) => {
                conflict("it is not a file any more".to_owned())
            }
        }
    }

    /// Checks that an entry is still what was removed. Moving an object into the store does not close it for
    /// processes that have it open, nor for its other hard links. Restoring a changed object would write
    /// content that was never judged.
    pub(super) fn unbroken(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        record: &Record,
    ) -> Result<(), AccessError> {
        let Held::Moved { seal } = record.held() else { return Ok(()) };
        let now = tree::seal(folder, name)
            .map_err(|error| AccessError::io("inspecting the saved state of", &record.path(), error))?;
        if seal.as_deref() == Some(now.as_str()) {
            return Ok(());
        }
        Err(AccessError::KeptChanged { path: record.path(), kept: self.path.join(before(&record.key())) })
    }
}

/// Opens the folder of a change by the path that was judged. The path must not contain a symbolic link, as it
/// did not then.
pub(super) fn reach_folder(name: &Path, leaf: &OsStr) -> Result<OwnedFd, AccessError> {
    let folder = platform::reach_without_links(name).ok().filter(|found| is_named(found, name));
    folder.ok_or_else(|| AccessError::NotThere { path: name.join(leaf), obstacle: Obstacle::NoFolder })
}

/// Opens the location of a change by the path that was judged.
pub(super) fn reach(folder_name: &Path, leaf: &OsStr) -> Result<OpenedPath, AccessError> {
    let (folder, path) = (reach_folder(folder_name, leaf)?, folder_name.join(leaf));
    let leaf = leaf.to_owned();
    let status = match platform::status_at(&folder, &leaf) {
        Ok(status) => Some(status),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(AccessError::io("inspecting", &path, errno)),
    };
    let handle = match &status {
        Some(status) if matches!(status.kind, FileType::RegularFile | FileType::Directory) => {
            let handle = platform::reach_without_links(&path);
            Some(handle.map_err(|errno| AccessError::io("opening", &path, errno))?)
        }
        _ => None,
    };
    let place = Place { folder, folder_name: folder_name.to_owned(), leaf };
    let object = match (status, handle) {
        (None, _) => {
            let vacancy = Vacancy { place, beyond: Vec::new(), ending: Ending::Open };
            Object::NotThere { obstacle: Obstacle::Absent, vacancy: Some(vacancy) }
        }
        (Some(seen), Some(handle)) if seen.kind == FileType::RegularFile => {
            Object::File { handle, facts: seen.facts, place: Some(place) }
        }
        (Some(seen), Some(handle)) => Object::Directory { handle, facts: seen.facts, place: Some(place) },
        (Some(seen), None) => {
            Object::Special { name: crate::opened::special_name(seen.kind), facts: seen.facts }
        }
    };
    let (typed, other_names) = (path.clone(), OtherNames::Known(Vec::new()));
    let (key, access, in_hand) = ("path".into(), PathAccess::Remove, OnceLock::new());
    let git_entry = git_directory::entry_at(&path);
    Ok(OpenedPath { key, typed, canonical: path, access, object, other_names, git_entry, in_hand })
}
