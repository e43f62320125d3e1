//! Leftovers: files of earlier runs that could not be quarantined. As long as one exists, nothing runs in its
//! folder, so that it is not mistaken for the user's own file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cleanup::quarantine::quarantine;
use crate::error::SandboxError;

/// Leftovers of runs of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    names: Arc<Mutex<Vec<PathBuf>>>,
}

impl Left {
    pub(crate) fn add(&self, names: impl Iterator<Item = PathBuf>) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// Tries again to quarantine leftovers in these folders, and fails if one remains. Blocks on the disk.
    pub(crate) fn refuse_in(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_here = |name: &Path| folders.iter().any(|folder| name.starts_with(folder));
        names.retain(|name| !is_here(name) || quarantine(name).is_some_and(|aside| aside.moved_to.is_none()));
        match names.iter().find(|name| is_here(name)) {
            Some(name) => Err(SandboxError::StillThere(name.clone())),
            None => Ok(()),
        }
    }
}
