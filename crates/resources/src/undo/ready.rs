//! Whether a change can be taken back: what it left is still there as it left it, and what was kept is as it was taken.

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
use super::record::{After, Held, Record};
use crate::error::AccessError;
use crate::links::OtherNames;
use crate::obstacle::Obstacle;
use crate::opened::{Object, OpenedPath, Place, Vacancy};
use crate::platform;
use crate::request::Ending;
use crate::resolve::is_named;
use crate::tree;

impl UndoStore {
    /// What the change left, if it is still there as it was left, and what was kept is as it was taken.
    pub(super) fn ready(&self, folder: &Folder, record: &Record) -> Result<OpenedPath, AccessError> {
        if let After::Folders { below, .. } = &record.after {
            return made::removable(record, below);
        }
        let target = reach(Path::new(&record.folder), &record.leaf)?;
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

    /// Whether what a name leads to is what was removed. Taking it did not close it to who had it open, nor to its other
    /// names: put back changed, it would be what nobody was asked about.
    pub(super) fn unbroken(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        record: &Record,
    ) -> Result<(), AccessError> {
        let Held::Moved { seal } = record.held() else { return Ok(()) };
        let now = tree::seal(folder, name)
            .map_err(|error| AccessError::io("looking at what was kept of", &record.path(), error))?;
        if seal.as_deref() == Some(now.as_str()) {
            return Ok(());
        }
        Err(AccessError::KeptChanged { path: record.path(), kept: self.path.join(before(&record.key())) })
    }
}

/// The folder of a change, by the name it was judged by. It must lead there without any link, as it did then.
pub(super) fn reach_folder(name: &Path, leaf: &OsStr) -> Result<OwnedFd, AccessError> {
    let folder = platform::reach_without_links(name).ok().filter(|found| is_named(found, name));
    folder.ok_or_else(|| AccessError::NotThere { path: name.join(leaf), obstacle: Obstacle::NoFolder })
}

/// The place of a change, likewise.
pub(super) fn reach(folder_name: &Path, leaf: &OsStr) -> Result<OpenedPath, AccessError> {
    let (folder, path) = (reach_folder(folder_name, leaf)?, folder_name.join(leaf));
    let leaf = leaf.to_owned();
    let status = match platform::status_at(&folder, &leaf) {
        Ok(status) => Some(status),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(AccessError::io("looking at", &path, errno)),
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
    Ok(OpenedPath { key, typed, canonical: path, access, object, other_names, in_hand })
}
