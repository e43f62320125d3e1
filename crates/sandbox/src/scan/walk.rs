//! Depth-first walk through a folder. At any time it has a path from the root to one folder; the siblings
//! along it are queued by name only. Temporary access to a folder ends when the walk leaves it. No folder is
//! kept open, because a run determines how deep and how many they are.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::scan::open_folder::Loosened;

/// Upper bound of the memory that a queued name takes besides its bytes.
const OF_A_NAME: usize = 64;

/// Folder to scan next.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) folder: PathBuf,
    /// True if it is inside a protected folder: then only hidden files in it are of interest.
    pub(crate) is_held: bool,
}

/// Folder on the current path, with its queued subfolders.
#[derive(Debug)]
struct Entered {
    folder: PathBuf,
    below: Vec<Waiting>,
    _open: Option<Loosened>,
}

#[derive(Debug)]
struct Waiting {
    name: OsString,
    is_held: bool,
}

/// Position of a walk, and the folders it has not visited yet.
#[derive(Debug)]
pub(crate) struct Way {
    first: Option<Next>,
    entered: Vec<Entered>,
    /// Memory that the queued names take.
    bytes: usize,
}

impl Way {
    pub(crate) fn from(folder: PathBuf) -> Way {
        Way { first: Some(Next { folder, is_held: false }), entered: Vec::new(), bytes: 0 }
    }

    /// Returns the next folder, and leaves folders without further subfolders.
    pub(crate) fn next(&mut self) -> Option<Next> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while let Some(entered) = self.entered.last_mut() {
            if let Some(Waiting { name, is_held }) = entered.below.pop() {
                self.bytes = self.bytes.saturating_sub(weight(&name));
                return Some(Next { folder: entered.folder.join(name), is_held });
            }
            self.entered.pop();
        }
        None
    }

    /// Enters a folder.
    pub(crate) fn enter(&mut self, folder: PathBuf, open: Option<Loosened>) {
        self.entered.push(Entered { folder, below: Vec::new(), _open: open });
    }

    /// Queues a subfolder of the folder entered last.
    pub(crate) fn later(&mut self, name: &OsStr, is_held: bool) {
        if let Some(entered) = self.entered.last_mut() {
            self.bytes = self.bytes.saturating_add(weight(name));
            entered.below.push(Waiting { name: name.to_owned(), is_held });
        }
    }

    /// Marks queued subfolders of the folder entered last as protected, and removes them if protected folders
    /// are not scanned.
    pub(crate) fn hold(&mut self, is_protected: impl Fn(&OsStr) -> bool, looks_into_held: bool) {
        let Some(entered) = self.entered.last_mut() else { return };
        entered.below.retain_mut(|waiting| {
            waiting.is_held |= is_protected(&waiting.name);
            let stays = !waiting.is_held || looks_into_held;
            if !stays {
                self.bytes = self.bytes.saturating_sub(weight(&waiting.name));
            }
            stays
        });
    }

    /// Returns the memory that all queued names take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // From the deepest up: restoring a folder's mode needs access to the folders above it.
        while self.entered.pop().is_some() {}
    }
}

fn weight(name: &OsStr) -> usize {
    name.len() + OF_A_NAME
}
