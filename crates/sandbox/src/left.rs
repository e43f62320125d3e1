//! Names that a run left and that could not be set aside. Nobody takes them for the user's own: as long as one is there,
//! nothing runs where it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::SandboxError;
use crate::quarantine::quarantine;

/// The names of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    names: Arc<Mutex<Vec<PathBuf>>>,
}

impl Left {
    pub(crate) fn add(&self, names: impl Iterator<Item = PathBuf>) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// Tries once more to set aside what is in these folders, and refuses while something stays. Blocks on the disk.
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
