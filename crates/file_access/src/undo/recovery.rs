//! Recovery of changes that a crash interrupted: removes their temporary names, and determines whether each
//! change happened.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::record::{SavedAs, StateAfter, StateBefore, UndoRecord};
use super::store_folder::{StoreFolder, saved_object_name};
use super::{STATE_INDEXES, UndoStore, load};
use crate::platform;
use crate::replace::file_sha256;
use crate::resolve::has_path;
use crate::tree;

/// Result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Paths of interrupted changes that had happened.
    pub completed: Vec<PathBuf>,
    /// Paths of interrupted changes that had not happened.
    pub rolled_back: Vec<PathBuf>,
    /// Changes in folders that cannot be opened now, and records of another version. The next recovery
    /// handles them.
    pub deferred: Vec<PathBuf>,
}

/// Outcome of an interrupted change.
enum ChangeOutcome {
    Completed,
    RolledBack,
}

impl UndoStore {
    /// Handles the changes that the previous process left pending. Called once, before the first change, by
    /// the only process that uses the store.
    pub fn recover(&self) -> io::Result<RecoveryReport> {
        let mut settled = RecoveryReport::default();
        match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(settled),
            _ => {}
        }
        let folder = self.folder()?;
        let names = folder.names()?;
        for name in &names {
            let Some(key) = name.strip_suffix(".pending") else { continue };
            match folder.read(name) {
                Ok(record) => recover_change(&folder, &record, &mut settled)?,
                // A truncated record belongs to a change that had not begun. A record that cannot be read now
                // may refer to the only copy of an object.
                Err(error) if is_truncated(&error) => folder.delete(key),
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    settled.deferred.push(self.path.join(name));
                }
                Err(error) => return Err(error),
            }
        }
        remove_orphans(&folder)?;
        let mut index = load(&folder);
        self.prune(&folder, &mut index);
        STATE_INDEXES.lock().unwrap_or_else(PoisonError::into_inner).insert(self.path.clone(), index);
        Ok(settled)
    }
}

fn is_truncated(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn recover_change(folder: &StoreFolder, record: &UndoRecord, settled: &mut RecoveryReport) -> io::Result<()> {
    let there = platform::open_handle_nofollow(Path::new(&record.folder));
    let Some(there) = there.ok().filter(|there| has_path(there, Path::new(&record.folder))) else {
        settled.deferred.push(record.path());
        return Ok(());
    };
    let found = change_outcome(folder, record, &there);
    // Only after the outcome is known: until then the temporary name may be the only copy of an object.
    tree::remove_tree(&there, OsStr::new(&record.temporary))?;
    match found {
        ChangeOutcome::Completed => {
            folder.mark_done(&record.key())?;
            settled.completed.push(record.path());
        }
        ChangeOutcome::RolledBack => {
            folder.delete(&record.key());
            settled.rolled_back.push(record.path());
        }
    }
    Ok(())
}

fn change_outcome(folder: &StoreFolder, record: &UndoRecord, there: &OwnedFd) -> ChangeOutcome {
    let leaf = Path::new(&record.leaf);
    match (&record.after, &record.before) {
        (StateAfter::File { sha256 }, was) => match (file_sha256(there, leaf), was) {
            (Ok(now), _) if now == *sha256 => ChangeOutcome::Completed,
            (Ok(now), StateBefore::File { sha256: Some(old), .. }) if now == *old => {
                ChangeOutcome::RolledBack
            }
            (Err(error), StateBefore::Absent) if error.kind() == io::ErrorKind::NotFound => {
                ChangeOutcome::RolledBack
            }
            // The file was changed since. The saved state may still be wanted.
            _ => ChangeOutcome::Completed,
        },
        // Folders are renamed as a whole: if the temporary name still exists, the rename did not happen.
        (StateAfter::Folders { .. }, _) => {
            let has = |name: &OsStr| platform::status_at(there, name).is_ok();
            let is_named = has(&record.leaf) && !has(OsStr::new(&record.temporary));
            if is_named { ChangeOutcome::Completed } else { ChangeOutcome::RolledBack }
        }
        (StateAfter::Absent, _) => {
            let is_gone = platform::status_at(there, &record.leaf).is_err();
            let is_moved = matches!(record.saved_as(), SavedAs::Moved { .. });
            let is_taken = is_moved && folder.contains(&saved_object_name(&record.key()));
            if is_taken || (is_gone && !is_moved) {
                ChangeOutcome::Completed
            } else {
                ChangeOutcome::RolledBack
            }
        }
    }
}

/// Removes saved objects without a record, and records without their saved object.
fn remove_orphans(folder: &StoreFolder) -> io::Result<()> {
    let names = folder.names()?;
    let all: HashSet<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        if let Some(key) = name.strip_suffix(".before")
            && !all.contains(format!("{key}.json").as_str())
            && !all.contains(format!("{key}.pending").as_str())
        {
            folder.delete(key);
        }
        if let Some(key) = name.strip_suffix(".json")
            && let Ok(record) = folder.read(name)
            && *record.saved_as() != SavedAs::NotSaved
            && !all.contains(saved_object_name(key).as_str())
        {
            folder.delete(key);
        }
    }
    Ok(())
}
