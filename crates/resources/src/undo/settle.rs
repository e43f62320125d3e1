//! The end of changes that a crash interrupted: temporary names are removed where they were left, and each change is found
//! to have taken place or not.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::folder::{Folder, before};
use super::record::{After, Before, Held, Record};
use super::{KEPT, UndoStore, room};
use crate::platform;
use crate::replace::sha256_of;
use crate::resolve::is_named;
use crate::tree;

/// What a start found in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Changes that had taken place when they were interrupted, by the names they changed.
    pub done: Vec<PathBuf>,
    /// Changes that had not.
    pub undone: Vec<PathBuf>,
    /// Changes in folders that cannot be looked at now, and records of another version. They are looked at again at the
    /// next start.
    pub waiting: Vec<PathBuf>,
}

/// Whether an interrupted change has taken place.
enum Found {
    Done,
    Undone,
}

impl UndoStore {
    /// Puts in order what the process before left. Called once, before the first change, by the only process that uses
    /// the store.
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
                // A record that was cut off belongs to a change that had not begun. One that cannot be read just now may
                // stand for the only copy of something.
                Err(error) if is_cut_off(&error) => folder.forget(key),
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    settled.waiting.push(self.path.join(name));
                }
                Err(error) => return Err(error),
            }
        }
        forget_orphans(&folder)?;
        let mut index = room::load(&folder);
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
    // Only after the look: until then the temporary name may hold the one copy of something.
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
            // Somebody changed it since. What is kept may still be wanted.
            _ => Found::Done,
        },
        // They take their name whole: what still has the temporary one has not taken it.
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

/// Objects whose record is gone, and records whose object is.
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
