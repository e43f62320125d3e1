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

use super::record::{SavedAs, StateAfter, StateBefore, UndoRecord};
use super::store_folder::{StoreFolder, saved_object_name};
use super::{ChangeRecorder, CreatedTree, UndoStore};
use crate::content_diff::{ContentDiff, content_diff};
use crate::error::AccessError;
use crate::git_directory;
use crate::opened::{CreationTarget, EntryLocation, OpenedObject, OpenedPath};
use crate::remove::{FolderRemoval, RemovalGuard};
use crate::replace::{ContentPrecondition, MetadataSource, NameLock};
use crate::tree;

/// Maximum size of texts whose diff is shown.
const MAX_DIFF_INPUT_BYTES: u64 = 1024 * 1024;
const MAX_DIFF_BYTES: usize = 64 * 1024;

/// One change that was, or would be, undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevertedChange {
    /// Canonical path.
    pub path: PathBuf,
    /// Way in which the change is undone.
    pub reversal: Reversal,
    /// A folder that the call created and that stays, because it holds other entries by now.
    pub remaining_folder: Option<PathBuf>,
    /// Diff of the text. Set only by a preview.
    pub diff: Option<ContentDiff>,
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
    pub fn preview_revert(&self, call: CallId) -> Result<Vec<RevertedChange>, AccessError> {
        let (folder, records) = self.records_of(call)?;
        let shown = |record: &UndoRecord| {
            let target = self.check_revertible(&folder, record)?;
            let difference = diff_with_saved(&folder, record, &target);
            Ok(RevertedChange { diff: difference, ..describe_revert(record, &target) })
        };
        records.iter().map(shown).collect()
    }

    /// Undoes the changes of a call, the last one first. Checks all of them before it changes anything.
    pub fn revert(
        self: &Arc<Self>,
        call: CallId,
        by: &ChangeRecorder,
    ) -> Result<Vec<RevertedChange>, AccessError> {
        let (folder, records) = self.records_of(call)?;
        for record in &records {
            self.check_revertible(&folder, record)?;
        }
        let mut all = Vec::new();
        for record in &records {
            let target = self.check_revertible(&folder, record)?;
            match (&record.before, &record.after) {
                (StateBefore::Absent, StateAfter::File { sha256 }) => {
                    let expected = ContentPrecondition::Content { sha256: sha256.clone() };
                    target.remove(&expected, FolderRemoval::Refuse, &RemovalGuard::none(), by)?;
                }
                (StateBefore::File { mode, .. }, StateAfter::File { sha256 }) => {
                    restore_content(&folder, record, *mode, &target, sha256, by)?;
                }
                (StateBefore::Absent, StateAfter::Folders { sha256, .. }) => {
                    let expected = match sha256 {
                        Some(sha256) => ContentPrecondition::Content { sha256: sha256.clone() },
                        None => ContentPrecondition::Anything,
                    };
                    let made = CreatedTree::below_target(record, &target);
                    target.remove(
                        &expected,
                        FolderRemoval::Recursive,
                        &RemovalGuard::all_except(&made),
                        by,
                    )?;
                }
                (_, StateAfter::Absent) => self.restore_removed(&folder, record, &target)?,
                (_, StateAfter::File { .. } | StateAfter::Folders { .. }) => {
                    let found = "its undo record describes a change that Sinew never makes".to_owned();
                    return Err(AccessError::Conflict { path: record.path(), found });
                }
            }
            self.dismiss(&folder, record);
            all.push(describe_revert(record, &target));
        }
        Ok(all)
    }

    /// Returns the records of a call, the last change first.
    fn records_of(&self, call: CallId) -> Result<(StoreFolder, Vec<UndoRecord>), AccessError> {
        let failed = |error: io::Error| AccessError::io("reading", &self.path, error);
        let folder = self.folder().map_err(failed)?;
        let start = format!("{call}-");
        let names = folder.names().map_err(failed)?;
        let names = names.iter().filter(|name| name.starts_with(&start) && name.ends_with(".json"));
        // Skipping an unreadable record would undo only a part of the call.
        let records: io::Result<Vec<UndoRecord>> = names.map(|name| folder.read(name)).collect();
        let mut records = records.map_err(failed)?;
        records.sort_by_key(|record| std::cmp::Reverse(record.number));
        if records.is_empty() {
            return Err(AccessError::NoSavedChanges { call });
        }
        Ok((folder, records))
    }
}

impl UndoStore {
    /// Restores a removed object under its name.
    fn restore_removed(
        &self,
        folder: &StoreFolder,
        record: &UndoRecord,
        target: &OpenedPath,
    ) -> Result<(), AccessError> {
        let path = record.path();
        let OpenedObject::Unresolved { creation_target: Some(CreationTarget { location, .. }), .. } =
            &target.object
        else {
            return Err(AccessError::Exists { path });
        };
        let put = |errno: Errno| match errno {
            Errno::EXIST => AccessError::Exists { path: record.path() },
            errno => AccessError::io("restoring", &record.path(), errno),
        };
        let _name_lock = NameLock::acquire(location).map_err(put)?;
        git_directory::refuse_entry(location)?;
        if let StateBefore::Link { text } = &record.before {
            rustix::fs::symlinkat(text.as_os_str(), &location.folder, &location.leaf).map_err(put)?;
            return location.sync().map_err(|errno| {
                let _ = rustix::fs::unlinkat(&location.folder, &location.leaf, AtFlags::empty());
                put(errno)
            });
        }
        let saved_name = saved_object_name(&record.key());
        let moved = match record.saved_as() {
            SavedAs::Moved { .. } => rename_into_place(&folder.handle, OsStr::new(&saved_name), location),
            SavedAs::Copied | SavedAs::NotSaved => Err(Errno::XDEV),
        };
        match moved {
            Err(Errno::XDEV) => {
                return restore_copy(folder, record, location)
                    .map_err(|error| AccessError::io("restoring", &path, error));
            }
            moved => moved.map_err(put)?,
        }
        // Another process may have changed the object since the check before the rename.
        let unbroken = self.check_seal(&location.folder, &location.leaf, record);
        unbroken.and_then(|()| location.sync().map_err(put)).or_else(|error| {
            let from = (&location.folder, location.leaf.as_os_str());
            rename_noreplace(from, (&folder.handle, OsStr::new(&saved_name))).map_err(put)?;
            Err(error)
        })
    }
}

/// Describes the undo of a change.
fn describe_revert(record: &UndoRecord, target: &OpenedPath) -> RevertedChange {
    let reversal = match (&record.before, &record.after) {
        (_, StateAfter::Absent) => Reversal::PutBack,
        (StateBefore::Absent, StateAfter::File { .. } | StateAfter::Folders { .. }) => Reversal::Removed,
        (_, StateAfter::File { .. } | StateAfter::Folders { .. }) => Reversal::Restored,
    };
    let path = target.canonical().to_owned();
    let remaining_folder = (path != record.path()).then(|| record.path());
    RevertedChange { path, reversal, remaining_folder, diff: None }
}

/// Restores the saved content, permissions and attributes of a file.
fn restore_content(
    folder: &StoreFolder,
    record: &UndoRecord,
    mode: u32,
    target: &OpenedPath,
    left: &str,
    by: &ChangeRecorder,
) -> Result<(), AccessError> {
    let failed = |error: io::Error| AccessError::io("restoring", &record.path(), error);
    let saved =
        tree::open_file(&folder.handle, OsStr::new(&saved_object_name(&record.key()))).map_err(failed)?;
    let StateBefore::File { sha256: Some(sha256), .. } = &record.before else {
        return Err(failed(io::ErrorKind::NotFound.into()));
    };
    let content = crate::read::FileReader::new(saved.try_clone().map_err(failed)?);
    let saved = OwnedFd::from(saved);
    let metadata_source = MetadataSource::Saved { attributes: &saved, mode };
    let expected = ContentPrecondition::Content { sha256: left.to_owned() };
    target.replace_from_reader(&mut { content }, sha256, &expected, &metadata_source, by).map(|_| ())
}

fn rename_into_place(from: &OwnedFd, name: &OsStr, location: &EntryLocation) -> Result<(), Errno> {
    rename_noreplace((from, name), (&location.folder, &location.leaf))
}

fn rename_noreplace(from: (&OwnedFd, &OsStr), to: (&OwnedFd, &OsStr)) -> Result<(), Errno> {
    rustix::fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE)
}

/// Copies the saved object back to its location. The record is pending until the copy has its name, so that a
/// crash leaves nothing behind.
fn restore_copy(folder: &StoreFolder, record: &UndoRecord, location: &EntryLocation) -> io::Result<()> {
    let (key, temporary) = (record.key(), OsStr::new(&record.temporary));
    folder.mark_pending(&key)?;
    let saved_name = saved_object_name(&key);
    let copied = match &record.before {
        StateBefore::File { mode, .. } => {
            let bits = tree::permissions(*mode);
            tree::copy_file(&folder.handle, OsStr::new(&saved_name), &location.folder, temporary, bits)
        }
        _ => tree::copy_tree(&folder.handle, OsStr::new(&saved_name), &location.folder, temporary),
    };
    let named = copied.and_then(|()| Ok(rename_into_place(&location.folder, temporary, location)?));
    let put = named.and_then(|()| {
        let synced = location.sync();
        if synced.is_err() {
            rename_noreplace((&location.folder, &location.leaf), (&location.folder, temporary))?;
        }
        Ok(synced?)
    });
    if put.is_err() {
        let _ = tree::remove_tree(&location.folder, temporary);
        folder.mark_done(&key)?;
    }
    put
}

fn diff_with_saved(folder: &StoreFolder, record: &UndoRecord, target: &OpenedPath) -> Option<ContentDiff> {
    let read = |mut source: Box<dyn Read>| {
        let mut bytes = Vec::new();
        source.by_ref().take(MAX_DIFF_INPUT_BYTES + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= MAX_DIFF_INPUT_BYTES).then_some(bytes)
    };
    let now = match &target.object {
        OpenedObject::File { .. } => Some(read(Box::new(target.reader().ok()?))?),
        OpenedObject::Directory { .. } => return None,
        _ => None,
    };
    let was = match &record.before {
        StateBefore::File { .. } => {
            let saved =
                tree::open_file(&folder.handle, OsStr::new(&saved_object_name(&record.key()))).ok()?;
            Some(read(Box::new(saved))?)
        }
        StateBefore::Absent => None,
        StateBefore::Link { .. } | StateBefore::Folder { .. } => return None,
    };
    let name = record.path().to_string_lossy().into_owned();
    Some(content_diff(&name, now.as_deref(), was.as_deref(), MAX_DIFF_BYTES))
}
