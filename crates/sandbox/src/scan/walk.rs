//! Depth-first walk through a folder. At any time it has a path from the root to one folder; the siblings
//! along it are queued by name only. Temporary access to a folder ends when the walk leaves it. No folder is
//! kept open, because a run determines how deep and how many they are.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::scan::open_folder::TemporaryAccess;

/// Upper bound of the memory that a queued name takes besides its bytes.
const NAME_OVERHEAD: usize = 64;

/// Folder to scan next.
#[derive(Debug)]
pub(crate) struct PendingFolder {
    pub(crate) folder: PathBuf,
    /// True if it is inside a protected folder: then only hidden files in it are of interest.
    pub(crate) is_protected: bool,
}

/// Folder on the current path, with its queued subfolders.
#[derive(Debug)]
struct EnteredFolder {
    folder: PathBuf,
    below: Vec<QueuedFolder>,
    _open: Option<TemporaryAccess>,
}

#[derive(Debug)]
struct QueuedFolder {
    name: OsString,
    is_protected: bool,
}

/// Position of a walk, and the folders it has not visited yet.
#[derive(Debug)]
pub(crate) struct DirectoryWalk {
    root: Option<PendingFolder>,
    entered: Vec<EnteredFolder>,
    /// Memory that the queued names take.
    queued_bytes: usize,
}

impl DirectoryWalk {
    pub(crate) fn starting_at(folder: PathBuf) -> DirectoryWalk {
        DirectoryWalk {
            root: Some(PendingFolder { folder, is_protected: false }),
            entered: Vec::new(),
            queued_bytes: 0,
        }
    }

    /// Returns the next folder, and leaves folders without further subfolders.
    pub(crate) fn next(&mut self) -> Option<PendingFolder> {
        if let Some(first) = self.root.take() {
            return Some(first);
        }
        while let Some(entered) = self.entered.last_mut() {
            if let Some(QueuedFolder { name, is_protected }) = entered.below.pop() {
                self.queued_bytes = self.queued_bytes.saturating_sub(queued_size(&name));
                return Some(PendingFolder { folder: entered.folder.join(name), is_protected });
            }
            self.entered.pop();
        }
        None
    }

    /// Enters a folder.
    pub(crate) fn enter(&mut self, folder: PathBuf, open: Option<TemporaryAccess>) {
        self.entered.push(EnteredFolder { folder, below: Vec::new(), _open: open });
    }

    /// Queues a subfolder of the folder entered last.
    pub(crate) fn queue(&mut self, name: &OsStr, is_protected: bool) {
        if let Some(entered) = self.entered.last_mut() {
            self.queued_bytes = self.queued_bytes.saturating_add(queued_size(name));
            entered.below.push(QueuedFolder { name: name.to_owned(), is_protected });
        }
    }

    /// Marks queued subfolders of the folder entered last as protected, and removes them if protected folders
    /// are not scanned.
    pub(crate) fn mark_protected(&mut self, is_protected: impl Fn(&OsStr) -> bool, scans_protected: bool) {
        let Some(entered) = self.entered.last_mut() else { return };
        entered.below.retain_mut(|waiting| {
            waiting.is_protected |= is_protected(&waiting.name);
            let stays = !waiting.is_protected || scans_protected;
            if !stays {
                self.queued_bytes = self.queued_bytes.saturating_sub(queued_size(&waiting.name));
            }
            stays
        });
    }

    /// Returns the memory that all queued names take.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }
}

impl Drop for DirectoryWalk {
    fn drop(&mut self) {
        // From the deepest up: restoring a folder's mode needs access to the folders above it.
        while self.entered.pop().is_some() {}
    }
}

fn queued_size(name: &OsStr) -> usize {
    name.len() + NAME_OVERHEAD
}
