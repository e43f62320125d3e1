//! Folders granted to a call, and the scan for paths in them that must be hidden or protected. The scan runs
//! before each run, and again if a path moved before the sandbox was built.

use std::path::{Path, PathBuf};

use governance::{SYSTEM_FOLDERS, Sight};
use rustix::fs::FileType;

use crate::cleanup::Before;
use crate::error::SandboxError;
use crate::launch::spec::Spec;
use crate::scan;
use crate::scan::bounds::Bounds;
use crate::scan::cancellation::Until;
use crate::scan::file_identity::{self, Held};
use crate::scan::hard_links::Linked;
use crate::scan::inventory::{self, Inventory};
use crate::scan::queue::Turn;

/// Folders of a call, and the visibility rules for their contents.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) sight: Sight,
}

impl Grants {
    /// Scans the folders and adds the results to the specification. Blocks on the disk.
    pub(crate) fn look(&self, spec: &mut Spec, until: &Until) -> Result<Before, SandboxError> {
        let roots: Vec<&Path> = self.writable.iter().chain(&self.readable).map(PathBuf::as_path).collect();
        let bounds = Bounds::before(until.clone());
        let _turn = Grants::turn(&roots, until)?;
        let mut found = Inventory::default();
        for root in &roots {
            found.extend(scan::take(root, &bounds, |path| self.sight.shows(path)).whole()?);
        }
        found.hidden.extend(self.forbidden_in_system(&roots));
        found.hide(self.other_names_of_hidden(&found, &roots, &bounds)?);
        spec.hidden = found.out_of_sight().cloned().collect();
        spec.kept = found.mountable().collect();
        spec.pinned = found.pinned(&self.writable, &self.readable).into_iter().collect();
        let held = spec.hidden.iter().chain(&spec.kept).map(|held| held.path.as_path());
        inventory::refuse_too_many(held.chain(spec.pinned.iter().map(PathBuf::as_path)), &roots)?;
        let hidden = spec.hidden.iter().map(|held| held.path.clone()).collect();
        let Inventory { kept, repositories, .. } = found;
        Ok(Before { writable: self.writable.clone(), hidden, kept, repositories })
    }

    /// Waits for a scan slot for the granted folders, if there are any.
    fn turn(roots: &[&Path], until: &Until) -> Result<Option<Turn>, SandboxError> {
        let Some(first) = roots.first() else { return Ok(None) };
        let folders = roots.iter().map(|root| root.to_path_buf()).collect();
        Turn::at(folders, until).map(Some).ok_or_else(|| SandboxError::OutOfTime(first.to_path_buf()))
    }

    /// Returns the hard links in the granted folders to files that are forbidden under another path.
    fn other_names_of_hidden(
        &self,
        found: &Inventory,
        roots: &[&Path],
        bounds: &Bounds,
    ) -> Result<Vec<Held>, SandboxError> {
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        let mut linked = Linked::default();
        found.hidden.iter().try_for_each(|held| linked.note(&held.path, bounds))?;
        let is_granted = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let outside = self.sight.forbidden_by_name().iter().map(PathBuf::as_path);
        linked.note_outside(outside.filter(|path| !is_granted(path)), bounds);
        let hidden = found.out_of_sight().map(|held| held.path.clone()).collect();
        let names = roots.iter().map(|root| linked.names_in(root, &hidden, bounds));
        Ok(names.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Returns the paths in system folders that the rules forbid by name; system folders are not scanned. A
    /// path that this user cannot reach is skipped, because a program cannot reach it either.
    fn forbidden_in_system(&self, roots: &[&Path]) -> Vec<Held> {
        let is_systems = |path: &Path| SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder));
        let is_granted = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let named = self.sight.forbidden_by_name().iter();
        let named = named.filter(|path| is_systems(path) && !is_granted(path));
        named.filter_map(|path| Some(Held { path: path.clone(), file: number_of(path)? })).collect()
    }
}

fn number_of(path: &Path) -> Option<file_identity::Number> {
    let facts = rustix::fs::lstat(path).ok()?;
    (FileType::from_raw_mode(facts.st_mode) != FileType::Symlink).then(|| file_identity::number(&facts))
}
