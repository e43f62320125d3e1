//! Folders granted to a call, and the scan for paths in them that must be hidden or protected. The scan runs
//! before each run, and again if a path moved before the sandbox was built.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use governance::policy_environment::SYSTEM_FOLDERS;
use governance::rules::VisibilityFilter;
use rustix::fs::FileType;

use crate::cleanup::WorkspaceBaseline;
use crate::error::SandboxError;
use crate::launch::spec::RunSpec;
use crate::scan;
use crate::scan::bounds::ScanBounds;
use crate::scan::cancellation::WorkDeadline;
use crate::scan::file_identity::{self, ExpectedFile};
use crate::scan::hard_links::HardLinkedFiles;
use crate::scan::inventory::{self, Inventory};
use crate::scan::queue::ScanSlot;

/// Folders of a call, and the visibility rules for their contents.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) visibility: VisibilityFilter,
}

impl Grants {
    /// Scans the folders and adds the results to the specification. Blocks on the disk.
    pub(crate) fn scan(
        &self,
        spec: &mut RunSpec,
        until: &WorkDeadline,
    ) -> Result<WorkspaceBaseline, SandboxError> {
        let roots: Vec<&Path> = self.writable.iter().chain(&self.readable).map(PathBuf::as_path).collect();
        let bounds = ScanBounds::before_run(until.clone());
        let _slot = Grants::wait_for_slot(&roots, until)?;
        let mut found = Inventory::default();
        for root in &roots {
            found.extend(scan::scan(root, &bounds, |path| self.visibility.is_visible(path)).into_complete()?);
        }
        found.hidden.extend(self.forbidden_in_system(&roots));
        found.hide(self.hard_links_of_hidden(&found, &roots, &bounds)?);
        // Nested folders are scanned twice, and a path that is covered already cannot be covered again.
        let mut seen = HashSet::new();
        spec.hidden =
            found.hidden_paths().filter(|expected| seen.insert(expected.path.clone())).cloned().collect();
        spec.protected = found.mountable().collect();
        spec.pinned = found.pinned_folders(&self.writable, &self.readable).into_iter().collect();
        let paths = spec.hidden.iter().chain(&spec.protected).map(|expected| expected.path.as_path());
        inventory::check_path_count(paths.chain(spec.pinned.iter().map(PathBuf::as_path)), &roots)?;
        let hidden = spec.hidden.iter().map(|expected| expected.path.clone()).collect();
        let Inventory { protected, repositories, .. } = found;
        Ok(WorkspaceBaseline { writable: self.writable.clone(), hidden, protected, repositories })
    }

    /// Waits for a scan slot for the granted folders, if there are any.
    fn wait_for_slot(roots: &[&Path], until: &WorkDeadline) -> Result<Option<ScanSlot>, SandboxError> {
        let Some(first) = roots.first() else { return Ok(None) };
        let folders = roots.iter().map(|root| root.to_path_buf()).collect();
        ScanSlot::wait(folders, until)
            .map(Some)
            .ok_or_else(|| SandboxError::ScanTimedOut(first.to_path_buf()))
    }

    /// Returns the hard links in the granted folders to files that are forbidden under another path.
    fn hard_links_of_hidden(
        &self,
        found: &Inventory,
        roots: &[&Path],
        bounds: &ScanBounds,
    ) -> Result<Vec<ExpectedFile>, SandboxError> {
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        let mut linked = HardLinkedFiles::default();
        found.hidden.iter().try_for_each(|expected| linked.add_below(&expected.path, bounds))?;
        let is_granted = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let outside = self.visibility.forbidden_literals().map(PathBuf::as_path);
        linked.add_outside(outside.filter(|path| !is_granted(path)), bounds);
        let hidden = found.hidden_paths().map(|expected| expected.path.clone()).collect();
        let names = roots.iter().map(|root| linked.find_in(root, &hidden, bounds));
        Ok(names.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Returns the paths in system folders that the rules forbid by name; system folders are not scanned. A
    /// path that this user cannot reach is skipped, because a program cannot reach it either.
    fn forbidden_in_system(&self, roots: &[&Path]) -> Vec<ExpectedFile> {
        let is_systems = |path: &Path| SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder));
        let is_granted = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let named = self.visibility.forbidden_literals();
        let named = named.filter(|path| is_systems(path) && !is_granted(path));
        named.filter_map(|path| Some(ExpectedFile { path: path.clone(), file: file_id_of(path)? })).collect()
    }
}

fn file_id_of(path: &Path) -> Option<file_identity::FileId> {
    let facts = rustix::fs::lstat(path).ok()?;
    (FileType::from_raw_mode(facts.st_mode) != FileType::Symlink).then(|| file_identity::file_id(&facts))
}
