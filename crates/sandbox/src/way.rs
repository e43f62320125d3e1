//! The way through a folder, depth first: at any time it leads from the top to one folder, and what is beside it waits by its
//! name alone. A folder that was opened to be looked into is closed again when the way leaves it. No folder is held open
//! here: how deep or how many they are is for a run to say.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::loosened::Loosened;

/// What a name that waits takes beside its bytes, at most.
const OF_A_NAME: usize = 64;

/// A folder that is to be looked through.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) folder: PathBuf,
    /// Whether it is protected whole: then only what is hidden in it is of interest.
    pub(crate) is_held: bool,
}

/// A folder on the way, and what of it is still to come.
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

/// Where a look is, and what it has not seen yet.
#[derive(Debug)]
pub(crate) struct Way {
    first: Option<Next>,
    entered: Vec<Entered>,
    /// What the names take that wait.
    bytes: usize,
}

impl Way {
    pub(crate) fn from(folder: PathBuf) -> Way {
        Way { first: Some(Next { folder, is_held: false }), entered: Vec::new(), bytes: 0 }
    }

    /// The next folder. Those that nothing is left of are left behind.
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

    /// The way leads into this folder now.
    pub(crate) fn enter(&mut self, folder: PathBuf, open: Option<Loosened>) {
        self.entered.push(Entered { folder, below: Vec::new(), _open: open });
    }

    /// A folder in the one that was entered last waits.
    pub(crate) fn later(&mut self, name: &OsStr, is_held: bool) {
        if let Some(entered) = self.entered.last_mut() {
            self.bytes = self.bytes.saturating_add(weight(name));
            entered.below.push(Waiting { name: name.to_owned(), is_held });
        }
    }

    /// Takes those that wait in the folder entered last for protected that are, and leaves them out if they need no look.
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

    /// What all the names take that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // From the deepest up: a folder is reached through those above it, to be closed again.
        while self.entered.pop().is_some() {}
    }
}

fn weight(name: &OsStr) -> usize {
    name.len() + OF_A_NAME
}
