//! One writer at a time for each name, within this process.
//!
//! Taking a name over and giving it back are several steps; two writers in the middle of them could give back each
//! other's file. Another name, and another volume that hangs, is never waited for.

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

use rustix::io::Errno;

use crate::opened::{Identity, Place};
use crate::platform;

type Name = (Identity, OsString);

static WRITTEN: LazyLock<(Mutex<HashSet<Name>>, Condvar)> = LazyLock::new(Default::default);

/// The right to change what a name leads to; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Name);

impl Turn {
    /// Waits for whoever writes to the same name.
    pub(crate) fn wait_for(place: &Place) -> Result<Self, Errno> {
        let name = (platform::status(&place.folder)?.facts.identity, place.leaf.clone());
        let (written, changed) = &*WRITTEN;
        // The set is whole between any two of its operations, so a panic elsewhere does not spoil it.
        let mut names = written.lock().unwrap_or_else(PoisonError::into_inner);
        while !names.insert(name.clone()) {
            names = changed.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(Turn(name))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (written, changed) = &*WRITTEN;
        written.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        changed.notify_all();
    }
}
