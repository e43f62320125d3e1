//! Scans a folder once for paths that the rules recognise by name, without following symbolic links. Hidden
//! folders are not entered. Before a run, protected folders are entered to find hidden files in them.

pub(crate) mod bounds;
pub(crate) mod cancellation;
pub(crate) mod file_identity;
pub(crate) mod hard_links;
pub(crate) mod inventory;
pub(crate) mod open_folder;
pub(crate) mod queue;
#[cfg(test)]
pub(crate) mod test_folder;
pub(crate) mod walk;

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use governance::{PathEntryKind, is_run_automatically};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, OFlags, statat};
use rustix::io::Errno;
use tool::git::{GitDirectory, is_acted_on_by_git};
use tool::git_acts_on;

use crate::error::SandboxError;
use crate::scan::bounds::ScanBounds;
use crate::scan::file_identity::{ExpectedFile, FileId};
use crate::scan::inventory::{Inventory, ProtectedFile, too_many_paths};
use crate::scan::open_folder::TemporaryAccess;
use crate::scan::walk::{DirectoryWalk, PendingFolder};

/// Longest path that the system accepts with the longest name appended. Deeper entries can be reached step by
/// step but not named, neither in a mount nor by the user who is to remove them.
const MAX_PATH_BYTES: usize = nix::libc::PATH_MAX as usize - 1 - 256;
/// Results are passed on at least this often, and at the end of each folder.
const MAX_BATCH: usize = 1_000;

/// Handling of folders that their owner may not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlistableFolders {
    /// Leaves them unchanged and reports them.
    Report,
    /// Makes them accessible during the scan: a run may have closed them over a file.
    MakeAccessible,
}

/// Scans a folder and collects the results, up to the limit of names. Folders that cannot be listed are
/// reported.
pub(crate) fn scan(folder: &Path, bounds: &ScanBounds, shows: impl Fn(&Path) -> bool) -> Inventory {
    let (mut found, mut count, mut bytes) = (Inventory::default(), 0_usize, 0_usize);
    let problem = scan_each(folder, bounds, UnlistableFolders::Report, &shows, &mut |part| {
        count += part.count();
        bytes += part.paths().map(|name| name.as_os_str().len()).sum::<usize>();
        found.extend(part);
        match bounds.is_exceeded_by(count, bytes) {
            true => Err(too_many_paths(found.paths(), &[folder])),
            false => Ok(()),
        }
    });
    Inventory { error: problem, ..found }
}

/// Scans a folder and passes results to `on_found` while their folder and its parents are accessible. Returns
/// the reason if the scan is incomplete.
pub(crate) fn scan_each(
    folder: &Path,
    bounds: &ScanBounds,
    unlistable: UnlistableFolders,
    shows: &dyn Fn(&Path) -> bool,
    on_found: &mut dyn FnMut(Inventory) -> Result<(), SandboxError>,
) -> Option<SandboxError> {
    let (walk, found) = (DirectoryWalk::starting_at(folder.to_owned()), Inventory::default());
    let mut scan = InventoryScan {
        root: folder,
        entries_seen: 0,
        bounds,
        unlistable,
        walk,
        found,
        is_visible: shows,
        on_found,
    };
    let mut problem = None;
    while let Some(next) = scan.walk.next() {
        let scanned = scan.scan_folder(next);
        match scan.flush_found().and(scanned) {
            Ok(()) => {}
            Err(error @ SandboxError::ScanFailed { .. }) => {
                problem.get_or_insert(error);
            }
            Err(error) => return Some(error),
        }
    }
    problem
}

struct InventoryScan<'a> {
    root: &'a Path,
    entries_seen: usize,
    bounds: &'a ScanBounds,
    unlistable: UnlistableFolders,
    walk: DirectoryWalk,
    /// Results that are not passed on yet.
    found: Inventory,
    is_visible: &'a dyn Fn(&Path) -> bool,
    on_found: &'a mut dyn FnMut(Inventory) -> Result<(), SandboxError>,
}

/// Folder being listed, with its identity.
struct ListedFolder {
    entries: Dir,
    file_id: FileId,
}

impl InventoryScan<'_> {
    fn scan_folder(&mut self, next: PendingFolder) -> Result<(), SandboxError> {
        self.bounds.check_deadline(self.root)?;
        let PendingFolder { folder, is_protected } = next;
        let Some((mut listed, open)) = self.open_folder(&folder).or_else(|error| self.unless_gone(error))?
        else {
            return Ok(());
        };
        self.walk.enter(folder.clone(), open);
        let mut git = GitDirectory::default();
        while let Some(entry) = listed.entries.read() {
            let entry = entry.map_err(|cause| self.scan_error(cause.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.count_entry()?;
            git.add(name);
            let sorted = self.classify((&listed, is_protected), &entry, folder.join(name));
            sorted.or_else(|error| self.unless_gone(error).map(|_: Option<()>| ()))?;
        }
        if git.is_complete() && !has_git_name(&folder) && !is_protected {
            self.add_repository(&listed, &folder).map_err(|error| self.scan_error(error))?;
        }
        Ok(())
    }

    /// Counts one entry and fails if a bound is reached.
    fn count_entry(&mut self) -> Result<(), SandboxError> {
        self.bounds.check_deadline(self.root)?;
        if self.entries_seen >= self.bounds.entries || self.walk.queued_bytes() > self.bounds.queued_bytes {
            return Err(SandboxError::TooLarge { folder: self.root.to_owned(), limit: self.entries_seen });
        }
        self.entries_seen += 1;
        if self.found.count() >= MAX_BATCH { self.flush_found() } else { Ok(()) }
    }

    fn flush_found(&mut self) -> Result<(), SandboxError> {
        match self.found.count() {
            0 => Ok(()),
            _ => (self.on_found)(std::mem::take(&mut self.found)),
        }
    }

    fn scan_error(&self, cause: io::Error) -> SandboxError {
        SandboxError::ScanFailed { folder: self.root.to_owned(), cause }
    }

    fn unless_gone<T>(&self, error: io::Error) -> Result<Option<T>, SandboxError> {
        if is_gone(&error) { Ok(None) } else { Err(self.scan_error(error)) }
    }

    /// Opens a folder for listing, if it is to be listed; also returns the temporary access if it was needed.
    fn open_folder(&mut self, folder: &Path) -> io::Result<Option<(ListedFolder, Option<TemporaryAccess>)>> {
        if folder.as_os_str().len() > MAX_PATH_BYTES {
            self.found.too_deep.push(expected_file(folder)?);
            return Ok(None);
        }
        match list_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.open_unlistable(folder, error)
            }
            listed => listed.map(|listed| Some((listed, None))),
        }
    }

    fn open_unlistable(
        &mut self,
        folder: &Path,
        error: io::Error,
    ) -> io::Result<Option<(ListedFolder, Option<TemporaryAccess>)>> {
        match self.unlistable {
            UnlistableFolders::Report if folder == self.root => return Err(error),
            UnlistableFolders::Report => {
                self.found.unlistable.push(expected_file(folder)?);
                return Ok(None);
            }
            UnlistableFolders::MakeAccessible => {}
        }
        let Some(loosened) = TemporaryAccess::grant(folder)? else {
            // The folder belongs to another user, so no run can have created it.
            return Ok(None);
        };
        let listed = list_folder(folder)?;
        if folder == self.root {
            // The root was accessible when the run began, and no run could work in an inaccessible one.
            loosened.keep();
            return Ok(Some((listed, None)));
        }
        Ok(Some((listed, Some(loosened))))
    }

    fn classify(
        &mut self,
        (folder, is_protected): (&ListedFolder, bool),
        entry: &DirEntry,
        path: PathBuf,
    ) -> io::Result<()> {
        let facts = || file_identity::facts_at(folder.entries.fd()?, entry.file_name());
        let kind = match entry.file_type() {
            FileType::Unknown => facts()?.kind,
            known => known,
        };
        let entry_kind =
            if kind == FileType::Directory { PathEntryKind::Folder } else { PathEntryKind::Other };
        if kind != FileType::Symlink && !(self.is_visible)(&path) {
            self.found.hidden.push(ExpectedFile { path, file: facts()?.file });
            return Ok(());
        }
        let runs_by_itself = !is_protected && is_run_automatically(&path, entry_kind);
        if runs_by_itself {
            self.found.protected.insert(path, protected_file(&facts()?, folder.file_id, false));
        }
        let is_protected = is_protected || runs_by_itself;
        if entry_kind == PathEntryKind::Folder && (!is_protected || self.scans_protected()) {
            self.walk.queue(OsStr::from_bytes(entry.file_name().to_bytes()), is_protected);
        }
        Ok(())
    }

    /// Returns true before a run. Nothing changes below a protected folder during a run, so it is not scanned
    /// after one.
    fn scans_protected(&self) -> bool {
        self.unlistable == UnlistableFolders::Report
    }

    /// Adds the files that git acts on in a bare repository.
    fn add_repository(&mut self, listed: &ListedFolder, folder: &Path) -> io::Result<()> {
        let facts = |name: &str| match file_identity::facts_at(listed.entries.fd()?, &CString::new(name)?) {
            Ok(facts) => Ok(Some(facts)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        };
        // The scan compared names without case. Looking them up shows whether this volume does so too.
        let mut git = GitDirectory::default();
        for name in GitDirectory::MARKERS {
            facts(name)?.iter().for_each(|_| git.add(name.as_ref()));
        }
        if !git.is_complete() {
            return Ok(());
        }
        for name in git_acts_on!().split(',') {
            if let Some(facts) = facts(name)? {
                let path = folder.join(name);
                self.found
                    .protected
                    .entry(path)
                    .or_insert_with(|| protected_file(&facts, listed.file_id, true));
            }
        }
        let scans_protected = self.scans_protected();
        self.walk.mark_protected(is_acted_on_by_git, scans_protected);
        self.found.repositories.insert(folder.to_owned());
        Ok(())
    }
}

/// File that makes git take a folder for a repository.
pub(crate) const REPOSITORY_HEAD: &str = "HEAD";

/// Returns true if the folder name ends in `.git`, so that the rules by name cover its contents.
fn has_git_name(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().as_bytes();
    name.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b".git"))
}

fn protected_file(facts: &file_identity::FileFacts, folder: FileId, is_of_repository: bool) -> ProtectedFile {
    let is_link = facts.kind == FileType::Symlink;
    ProtectedFile {
        file: facts.file,
        created: facts.created,
        parent: folder,
        is_symlink: is_link,
        is_in_repository: is_of_repository,
    }
}

/// Opens a folder for reading its entries and their properties.
fn list_folder(folder: &Path) -> io::Result<ListedFolder> {
    let entries = Dir::new(open_folder::open(folder, OFlags::RDONLY)?)?;
    let number = file_identity::file_id(&statat(entries.fd()?, ".", AtFlags::empty())?);
    Ok(ListedFolder { entries, file_id: number })
}

fn expected_file(folder: &Path) -> io::Result<ExpectedFile> {
    let handle = open_folder::open(folder, open_folder::HANDLE)?;
    Ok(ExpectedFile { path: folder.to_owned(), file: file_identity::file_id_of_open(handle.as_fd())? })
}

/// Returns true if an entry was removed since it was listed, or replaced by something that was never granted.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR))
}

#[cfg(test)]
mod tests;
