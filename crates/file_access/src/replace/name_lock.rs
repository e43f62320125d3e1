//! Lock per file name within this process.
//!
//! A write and its revert take several steps. Two concurrent writers of one name could otherwise restore each
//! other's file. Writers of other names, and of volumes that hang, are never waited for.
//! The entries by which git recognises a repository share one turn in each folder, because whether one of them
//! completes the layout depends on the others.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Condvar, Mutex, PoisonError};

use rustix::io::Errno;

use crate::opened::{EntryLocation, ObjectIdentity};
use crate::platform;

type NameKey = (ObjectIdentity, OsString);

// Not a hash set: its seed is random, and a lazy value whose initialisation panics once is unusable forever.
static LOCKED_NAMES: (Mutex<BTreeSet<NameKey>>, Condvar) = (Mutex::new(BTreeSet::new()), Condvar::new());

/// Exclusive right to change what a name leads to, until drop.
#[derive(Debug)]
pub(crate) struct NameLock(NameKey);

impl NameLock {
    /// Waits until no other writer holds the same name.
    pub(crate) fn acquire(location: &EntryLocation) -> Result<Self, Errno> {
        // No entry has a slash for its name.
        let leaf = if tool::git::is_git_marker(&location.leaf) {
            OsString::from("/")
        } else {
            location.leaf.clone()
        };
        let name = (platform::status(&location.folder)?.facts.identity, leaf);
        let (written, changed) = &LOCKED_NAMES;
        // Every operation leaves the set consistent, so a poisoned lock is safe to use.
        let mut names = written.lock().unwrap_or_else(PoisonError::into_inner);
        while !names.insert(name.clone()) {
            names = changed.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(NameLock(name))
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        let (written, changed) = &LOCKED_NAMES;
        written.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        changed.notify_all();
    }
}
