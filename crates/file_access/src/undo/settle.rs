//! Recovery of changes that a crash interrupted: removes their temporary names, and determines whether each
//! change happened.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::folder::{Folder, before};
use super::record::{After, Before, Held, Record};
use super::{KEPT, UndoStore, load};
use crate::platform;
use crate::replace::sha256_of;
use crate::resolve::is_named;
use crate::tree;

/// Result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Paths of interrupted changes that had happened.
    pub done: Vec<PathBuf>,
    /// Paths of interrupted changes that had not happened.
    pub undone: Vec<PathBuf>,
    /// Changes in folders that cannot be opened now, and records of another version. The next recovery
    /// handles them.
    pub waiting: Vec<PathBuf>,
}

/// Outcome of an interrupted change.
enum Found {
    Done,
    Undone,
}

impl UndoStore {
    /// Handles the changes that the previous process left pending. Called once, before the first change, by
    /// the only process that uses the store.
    pub fn settle(&self) -> io::Result<Settled> {
        let mut settled = Settled::default();
        match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(settled),
            _ => {}
        }
        let folder = self.folder()?;
        let names = folder.names()?;
        for name in &names {
            let Some(key) = name.strip_suffix(".pending") else { continue };
            match folder.read(name) {
                Ok(record) => settle(&folder, &record, &mut settled)?,
                // A truncated record belongs to a change that had not begun. A record that cannot be read now
                // may refer to the only copy of an object.
                Err(error) if is_cut_off(&error) => folder.forget(key),
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    settled.waiting.push(self.path.join(name));
                }
                Err(error) => return Err(error),
            }
        }
        forget_orphans(&folder)?;
        let mut index = load(&folder);
        self.prune(&folder, &mut index);
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(self.path.clone(), index);
        Ok(settled)
    }
}

fn is_cut_off(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn settle(folder: &Folder, record: &Record, settled: &mut Settled) -> io::Result<()> {
    let there = platform::reach_without_links(Path::new(&record.folder));
    let Some(there) = there.ok().filter(|there| is_named(there, Path::new(&record.folder))) else {
        settled.waiting.push(record.path());
        return Ok(());
    };
    let found = found(folder, record, &there);
    // Only after the outcome is known: until then the temporary name may be the only copy of an object.
    tree::clear(&there, OsStr::new(&record.temporary))?;
    match found {
        Found::Done => {
            folder.finish(&record.key())?;
            settled.done.push(record.path());
        }
        Found::Undone => {
            folder.forget(&record.key());
            settled.undone.push(record.path());
        }
    }
    Ok(())
}

fn found(folder: &Folder, record: &Record, there: &OwnedFd) -> Found {
    let leaf = Path::new(&record.leaf);
    match (&record.after, &record.before) {
        (After::File { sha256 }, was) => match (sha256_of(there, leaf), was) {
            (Ok(now), _) if now == *sha256 => Found::Done,
            (Ok(now), Before::File { sha256: Some(old), .. }) if now == *old => Found::Undone,
            (Err(error), Before::Absent) if error.kind() == io::ErrorKind::NotFound => Found::Undone,
            // The file was changed since. The saved state may still be wanted.
            _ => Found::Done,
        },
        // Folders are renamed as a whole: if the temporary name still exists, the rename did not happen.
        (After::Folders { .. }, _) => {
            let has = |name: &OsStr| platform::status_at(there, name).is_ok();
            let is_named = has(&record.leaf) && !has(OsStr::new(&record.temporary));
            if is_named { Found::Done } else { Found::Undone }
        }
        (After::Absent, _) => {
            let is_gone = platform::status_at(there, &record.leaf).is_err();
            let is_moved = matches!(record.held(), Held::Moved { .. });
            let is_taken = is_moved && folder.has(&before(&record.key()));
            if is_taken || (is_gone && !is_moved) { Found::Done } else { Found::Undone }
        }
    }
}

/// Removes saved objects without a record, and records without their saved object.
fn forget_orphans(folder: &Folder) -> io::Result<()> {
    let names = folder.names()?;
    let all: HashSet<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        if let Some(key) = name.strip_suffix(".before")
            && !all.contains(format!("{key}.json").as_str())
            && !all.contains(format!("{key}.pending").as_str())
        {
            folder.forget(key);
        }
        if let Some(key) = name.strip_suffix(".json")
            && let Ok(record) = folder.read(name)
            && *record.held() != Held::Not
            && !all.contains(before(key).as_str())
        {
            folder.forget(key);
        }
    }
    Ok(())
}
