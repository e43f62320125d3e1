//! Extra program directories: folders from which a policy lets a call take programs besides those of the
//! system, such as a toolchain in the home folder. They are readable and executable; a folder that a call can
//! write to is refused.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use governance::Permit;

use crate::error::SandboxError;
use crate::prepare::environment::SEARCH_PATH;

/// Extra program directories of one call, by canonical path.
#[derive(Debug, Default)]
pub(crate) struct ProgramDirs {
    roots: Vec<PathBuf>,
}

impl ProgramDirs {
    /// Returns those that exist. Blocks on the disk.
    pub(crate) fn of(permit: &Permit) -> Result<ProgramDirs, SandboxError> {
        let mut roots = Vec::new();
        for folder in permit.program_folders() {
            let Ok(root) = folder.canonicalize() else { continue };
            let overlaps = |other: &PathBuf| root.starts_with(other) || other.starts_with(&root);
            if permit.writable_folders().iter().any(overlaps) || !permit.is_visible(&root) {
                return Err(SandboxError::UntrustedProgramDir(root));
            }
            roots.push(root);
        }
        Ok(ProgramDirs { roots })
    }

    /// Returns the folders that must be readable for their programs to run.
    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns the folders in which a program is searched by name, in this order.
    pub(crate) fn search_path(&self) -> Vec<PathBuf> {
        let own = self.roots.iter().map(|root| bin_dir(root));
        own.chain(SEARCH_PATH.iter().map(PathBuf::from)).collect()
    }

    /// Returns the `PATH` variable with which their programs find each other, if there are any.
    pub(crate) fn path_variable(&self) -> Option<(String, OsString)> {
        let search = self.search_path();
        let joined = search.iter().map(|folder| folder.as_os_str()).collect::<Vec<_>>().join(":".as_ref());
        (!self.roots.is_empty()).then(|| ("PATH".to_owned(), joined))
    }
}

fn bin_dir(root: &Path) -> PathBuf {
    let bin = root.join("bin");
    if bin.is_dir() { bin } else { root.to_owned() }
}
