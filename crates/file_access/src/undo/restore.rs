//! Undo of a change, only while its result is unchanged.
//!
//! The writes and removals of an undo are themselves recorded under the call id of the undo, so an undo can
//! be undone.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use tool::CallId;

use super::folder::{Folder, before};
use super::record::{After, Before, Held, Record};
use super::{Made, Saving, UndoStore};
use crate::difference::{Difference, difference};
use crate::error::AccessError;
use crate::git_directory;
use crate::opened::{Object, OpenedPath, Place, Vacancy};
use crate::remove::{Descent, Protects};
use crate::replace::{Expected, Likeness, Turn};
use crate::tree;

/// Maximum size of texts whose diff is shown.
const MOST_COMPARED: u64 = 1024 * 1024;
const LONGEST_DIFFERENCE: usize = 64 * 1024;

/// One change that was, or would be, undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// Canonical path.
    pub path: PathBuf,
    /// Way in which the change is undone.
    pub how: Reversal,
    /// A folder that the call created and that stays, because it holds other entries by now.
    pub stays: Option<PathBuf>,
    /// Diff of the text. Set only by a preview.
    pub difference: Option<Difference>,
}

/// Way in which a change is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reversal {
    /// The object that the call created is removed.
    Removed,
    /// The file gets its old content, permissions and attributes.
    Restored,
    /// The object that the call removed is restored.
    PutBack,
}

impl UndoStore {
    /// Returns what undoing a call would do, or the reason why it is not possible.
    pub fn rehearse(&self, call: CallId) -> Result<Vec<Reverted>, AccessError> {
        let (folder, records) = self.kept(call)?;
        let shown = |record: &Record| {
            let target = self.ready(&folder, record)?;
            let difference = compare(&folder, record, &target);
            Ok(Reverted { difference, ..reverted(record, &target) })
        };
        records.iter().map(shown).collect()
    }

    /// Undoes the changes of a call, the last one first. Checks all of them before it changes anything.
    pub fn revert(self: &Arc<Self>, call: CallId, by: &Saving) -> Result<Vec<Reverted>, AccessError> {
        let (folder, records) = self.kept(call)?;
        for record in &records {
            self.ready(&folder, record)?;
        }
        let mut all = Vec::new();
        for record in &records {
            let target = self.ready(&folder, record)?;
            match (&record.before, &record.after) {
                (Before::Absent, After::File { sha256 }) => {
                    let expected = Expected::Content { sha256: sha256.clone() };
                    target.remove(&expected, Descent::Never, &Protects::nothing(), by)?;
                }
                (Before::File { mode, .. }, After::File { sha256 }) => {
                    restore(&folder, record, *mode, &target, sha256, by)?;
                }
                (Before::Absent, After::Folders { sha256, .. }) => {
                    let expected = match sha256 {
                        Some(sha256) => Expected::Content { sha256: sha256.clone() },
                        None => Expected::Anything,
                    };
                    let made = Made::below(record, &target);
                    target.remove(&expected, Descent::Whole, &Protects::all_but(&made), by)?;
                }
                (_, After::Absent) => self.put_back(&folder, record, &target)?,
                (_, After::File { .. } | After::Folders { .. }) => {
                    let found = "its undo record describes a change that Sinew never makes".to_owned();
                    return Err(AccessError::Conflict { path: record.path(), found });
                }
            }
            self.dismiss(&folder, record);
            all.push(reverted(record, &target));
        }
        Ok(all)
    }

    /// Returns the records of a call, the last change first.
    fn kept(&self, call: CallId) -> Result<(Folder, Vec<Record>), AccessError> {
        let failed = |error: io::Error| AccessError::io("reading", &self.path, error);
        let folder = self.folder().map_err(failed)?;
        let start = format!("{call}-");
        let names = folder.names().map_err(failed)?;
        let names = names.iter().filter(|name| name.starts_with(&start) && name.ends_with(".json"));
        // Skipping an unreadable record would undo only a part of the call.
        let records: io::Result<Vec<Record>> = names.map(|name| folder.read(name)).collect();
        let mut records = records.map_err(failed)?;
        records.sort_by_key(|record| std::cmp::Reverse(record.number));
        if records.is_empty() {
            return Err(AccessError::NothingKept { call });
        }
        Ok((folder, records))
    }
}

impl UndoStore {
    /// Restores a removed object under its name.
    fn put_back(&self, folder: &Folder, record: &Record, target: &OpenedPath) -> Result<(), AccessError> {
        let path = record.path();
        let Object::NotThere { vacancy: Some(Vacancy { place, .. }), .. } = &target.object else {
            return Err(AccessError::Exists { path });
        };
        let put = |errno: Errno| match errno {
            Errno::EXIST => AccessError::Exists { path: record.path() },
            errno => AccessError::io("restoring", &record.path(), errno),
        };
        let _turn = Turn::wait_for(place).map_err(put)?;
        git_directory::refuse_entry(place)?;
        if let Before::Link { text } = &record.before {
            rustix::fs::symlinkat(text.as_os_str(), &place.folder, &place.leaf).map_err(put)?;
            return place.sync().map_err(|errno| {
                let _ = rustix::fs::unlinkat(&place.folder, &place.leaf, AtFlags::empty());
                put(errno)
            });
        }
        let kept = before(&record.key());
        let moved = match record.held() {
            Held::Moved { .. } => take_name(&folder.handle, OsStr::new(&kept), place),
            Held::Copied | Held::Not => Err(Errno::XDEV),
        };
        match moved {
            Err(Errno::XDEV) => {
                return put_copy_back(folder, record, place)
                    .map_err(|error| AccessError::io("restoring", &path, error));
            }
            moved => moved.map_err(put)?,
        }
        // Another process may have changed the object since the check before the rename.
        let unbroken = self.unbroken(&place.folder, &place.leaf, record);
        unbroken.and_then(|()| place.sync().map_err(put)).or_else(|error| {
            let from = (&place.folder, place.leaf.as_os_str());
            rename_new(from, (&folder.handle, OsStr::new(&kept))).map_err(put)?;
            Err(error)
        })
    }
}

/// Describes the undo of a change.
fn reverted(record: &Record, target: &OpenedPath) -> Reverted {
    let how = match (&record.before, &record.after) {
        (_, After::Absent) => Reversal::PutBack,
        (Before::Absent, After::File { .. } | After::Folders { .. }) => Reversal::Removed,
        (_, After::File { .. } | After::Folders { .. }) => Reversal::Restored,
    };
    let path = target.canonical().to_owned();
    let stays = (path != record.path()).then(|| record.path());
    Reverted { path, how, stays, difference: None }
}

/// Restores the saved content, permissions and attributes of a file.
fn restore(
    folder: &Folder,
    record: &Record,
    mode: u32,
    target: &OpenedPath,
    left: &str,
    by: &Saving,
) -> Result<(), AccessError> {
    let failed = |error: io::Error| AccessError::io("restoring", &record.path(), error);
    let kept = tree::open_file(&folder.handle, OsStr::new(&before(&record.key()))).map_err(failed)?;
    let Before::File { sha256: Some(sha256), .. } = &record.before else {
        return Err(failed(io::ErrorKind::NotFound.into()));
    };
    let content = crate::read::Reader::new(kept.try_clone().map_err(failed)?);
    let kept = OwnedFd::from(kept);
    let likeness = Likeness::Kept { attributes: &kept, mode };
    let expected = Expected::Content { sha256: left.to_owned() };
    target.replace_like(&mut { content }, sha256, &expected, &likeness, by).map(|_| ())
}

fn take_name(from: &OwnedFd, name: &OsStr, place: &Place) -> Result<(), Errno> {
    rename_new((from, name), (&place.folder, &place.leaf))
}

fn rename_new(from: (&OwnedFd, &OsStr), to: (&OwnedFd, &OsStr)) -> Result<(), Errno> {
    rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)
}

/// Copies the saved object back to its location. The record is pending until the copy has its name, so that a
/// crash leaves nothing behind.
fn put_copy_back(folder: &Folder, record: &Record, place: &Place) -> io::Result<()> {
    let (key, temporary) = (record.key(), OsStr::new(&record.temporary));
    folder.reopen(&key)?;
    let kept = before(&key);
    let copied = match &record.before {
        Before::File { mode, .. } => {
            let bits = tree::permissions(*mode);
            tree::copy_file(&folder.handle, OsStr::new(&kept), &place.folder, temporary, bits)
        }
        _ => tree::copy(&folder.handle, OsStr::new(&kept), &place.folder, temporary),
    };
    let named = copied.and_then(|()| Ok(take_name(&place.folder, temporary, place)?));
    let put = named.and_then(|()| {
        let synced = place.sync();
        if synced.is_err() {
            rename_new((&place.folder, &place.leaf), (&place.folder, temporary))?;
        }
        Ok(synced?)
    });
    if put.is_err() {
        let _ = tree::clear(&place.folder, temporary);
        folder.finish(&key)?;
    }
    put
}

fn compare(folder: &Folder, record: &Record, target: &OpenedPath) -> Option<Difference> {
    let read = |mut source: Box<dyn Read>| {
        let mut bytes = Vec::new();
        source.by_ref().take(MOST_COMPARED + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= MOST_COMPARED).then_some(bytes)
    };
    let now = match &target.object {
        Object::File { .. } => Some(read(Box::new(target.reader().ok()?))?),
        Object::Directory { .. } => return None,
        _ => None,
    };
    let was = match &record.before {
        Before::File { .. } => {
            let kept = tree::open_file(&folder.handle, OsStr::new(&before(&record.key()))).ok()?;
            Some(read(Box::new(kept))?)
        }
        Before::Absent => None,
        Before::Link { .. } | Before::Folder { .. } => return None,
    };
    let name = record.path().to_string_lossy().into_owned();
    Some(difference(&name, now.as_deref(), was.as_deref(), LONGEST_DIFFERENCE))
}
