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

use governance::{Stands, runs_by_itself};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, OFlags, statat};
use rustix::io::Errno;
use tool::{GitDirectory, git_acts_on, is_acted_on_by_git};

use crate::error::SandboxError;
use crate::scan::bounds::Bounds;
use crate::scan::file_identity::{Held, Number};
use crate::scan::inventory::{Inventory, Kept, too_many};
use crate::scan::open_folder::Loosened;
use crate::scan::walk::{Next, Way};

/// Longest path that the system accepts with the longest name appended. Deeper entries can be reached step by
/// step but not named, neither in a mount nor by the user who is to remove them.
const LONGEST_PATH: usize = nix::libc::PATH_MAX as usize - 1 - 256;
/// Results are passed on at least this often, and at the end of each folder.
const MOST_AT_ONCE: usize = 1_000;

/// Handling of folders that their owner may not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Leaves them unchanged and reports them.
    Told,
    /// Makes them accessible during the scan: a run may have closed them over a file.
    Opened,
}

/// Scans a folder and collects the results, up to the limit of names. Folders that cannot be listed are
/// reported.
pub(crate) fn take(folder: &Path, bounds: &Bounds, shows: impl Fn(&Path) -> bool) -> Inventory {
    let (mut found, mut count, mut bytes) = (Inventory::default(), 0_usize, 0_usize);
    let problem = each(folder, bounds, Closed::Told, &shows, &mut |part| {
        count += part.count();
        bytes += part.names().map(|name| name.as_os_str().len()).sum::<usize>();
        found.extend(part);
        match bounds.are_too_many(count, bytes) {
            true => Err(too_many(found.names(), &[folder])),
            false => Ok(()),
        }
    });
    Inventory { problem, ..found }
}

/// Scans a folder and passes results to `on_found` while their folder and its parents are accessible. Returns
/// the reason if the scan is incomplete.
pub(crate) fn each(
    folder: &Path,
    bounds: &Bounds,
    closed: Closed,
    shows: &dyn Fn(&Path) -> bool,
    hand_on: &mut dyn FnMut(Inventory) -> Result<(), SandboxError>,
) -> Option<SandboxError> {
    let (way, found) = (Way::from(folder.to_owned()), Inventory::default());
    let mut look = Look { root: folder, seen: 0, bounds, closed, way, found, shows, hand_on };
    let mut problem = None;
    while let Some(next) = look.way.next() {
        let looked = look.through(next);
        match look.hand_on_found().and(looked) {
            Ok(()) => {}
            Err(error @ SandboxError::Unlisted { .. }) => {
                problem.get_or_insert(error);
            }
            Err(error) => return Some(error),
        }
    }
    problem
}

struct Look<'a> {
    root: &'a Path,
    seen: usize,
    bounds: &'a Bounds,
    closed: Closed,
    way: Way,
    /// Results that are not passed on yet.
    found: Inventory,
    shows: &'a dyn Fn(&Path) -> bool,
    hand_on: &'a mut dyn FnMut(Inventory) -> Result<(), SandboxError>,
}

/// Folder being listed, with its identity.
struct Listed {
    entries: Dir,
    number: Number,
}

impl Look<'_> {
    fn through(&mut self, next: Next) -> Result<(), SandboxError> {
        self.bounds.refuse_late(self.root)?;
        let Next { folder, is_held } = next;
        let Some((mut listed, open)) = self.enter(&folder).or_else(|error| self.unless_gone(error))? else {
            return Ok(());
        };
        self.way.enter(folder.clone(), open);
        let mut git = GitDirectory::default();
        while let Some(entry) = listed.entries.read() {
            let entry = entry.map_err(|cause| self.problem(cause.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.see_one_more()?;
            git.add(name);
            let sorted = self.sort_in((&listed, is_held), &entry, folder.join(name));
            sorted.or_else(|error| self.unless_gone(error).map(|_: Option<()>| ()))?;
        }
        if git.is_complete() && !is_git_by_name(&folder) && !is_held {
            self.repository(&listed, &folder).map_err(|error| self.problem(error))?;
        }
        Ok(())
    }

    /// Counts one entry and fails if a bound is reached.
    fn see_one_more(&mut self) -> Result<(), SandboxError> {
        self.bounds.refuse_late(self.root)?;
        if self.seen >= self.bounds.entries || self.way.bytes() > self.bounds.waiting {
            return Err(SandboxError::TooLarge { folder: self.root.to_owned(), limit: self.seen });
        }
        self.seen += 1;
        if self.found.count() >= MOST_AT_ONCE { self.hand_on_found() } else { Ok(()) }
    }

    fn hand_on_found(&mut self) -> Result<(), SandboxError> {
        match self.found.count() {
            0 => Ok(()),
            _ => (self.hand_on)(std::mem::take(&mut self.found)),
        }
    }

    fn problem(&self, cause: io::Error) -> SandboxError {
        SandboxError::Unlisted { folder: self.root.to_owned(), cause }
    }

    fn unless_gone<T>(&self, error: io::Error) -> Result<Option<T>, SandboxError> {
        if is_gone(&error) { Ok(None) } else { Err(self.problem(error)) }
    }

    /// Opens a folder for listing, if it is to be listed; also returns the temporary access if it was needed.
    fn enter(&mut self, folder: &Path) -> io::Result<Option<(Listed, Option<Loosened>)>> {
        if folder.as_os_str().len() > LONGEST_PATH {
            self.found.deep.push(held(folder)?);
            return Ok(None);
        }
        match list(folder) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.closed(folder, error),
            listed => listed.map(|listed| Some((listed, None))),
        }
    }

    fn closed(&mut self, folder: &Path, error: io::Error) -> io::Result<Option<(Listed, Option<Loosened>)>> {
        match self.closed {
            Closed::Told if folder == self.root => return Err(error),
            Closed::Told => {
                self.found.closed.push(held(folder)?);
                return Ok(None);
            }
            Closed::Opened => {}
        }
        let Some(loosened) = Loosened::of(folder)? else {
            // The folder belongs to another user, so no run can have created it.
            return Ok(None);
        };
        let listed = list(folder)?;
        if folder == self.root {
            // The root was accessible when the run began, and no run could work in an inaccessible one.
            loosened.stays();
            return Ok(Some((listed, None)));
        }
        Ok(Some((listed, Some(loosened))))
    }

    fn sort_in(
        &mut self,
        (folder, is_held): (&Listed, bool),
        entry: &DirEntry,
        path: PathBuf,
    ) -> io::Result<()> {
        let facts = || file_identity::facts_at(folder.entries.fd()?, entry.file_name());
        let kind = match entry.file_type() {
            FileType::Unknown => facts()?.kind,
            known => known,
        };
        let stands = if kind == FileType::Directory { Stands::Folder } else { Stands::Other };
        if kind != FileType::Symlink && !(self.shows)(&path) {
            self.found.hidden.push(Held { path, file: facts()?.file });
            return Ok(());
        }
        let runs_by_itself = !is_held && runs_by_itself(&path, stands);
        if runs_by_itself {
            self.found.kept.insert(path, kept(&facts()?, folder.number, false));
        }
        let is_held = is_held || runs_by_itself;
        if stands == Stands::Folder && (!is_held || self.looks_into_held()) {
            self.way.later(OsStr::from_bytes(entry.file_name().to_bytes()), is_held);
        }
        Ok(())
    }

    /// Returns true before a run. Nothing changes below a protected folder during a run, so it is not scanned
    /// after one.
    fn looks_into_held(&self) -> bool {
        self.closed == Closed::Told
    }

    /// Adds the files that git acts on in a bare repository.
    fn repository(&mut self, listed: &Listed, folder: &Path) -> io::Result<()> {
        let facts = |name: &str| match file_identity::facts_at(listed.entries.fd()?, &CString::new(name)?) {
            Ok(facts) => Ok(Some(facts)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        };
        // Letters were compared without case; whether this volume does so too, it says itself.
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
                self.found.kept.entry(path).or_insert_with(|| kept(&facts, listed.number, true));
            }
        }
        let looks_into_held = self.looks_into_held();
        self.way.hold(is_acted_on_by_git, looks_into_held);
        self.found.repositories.insert(folder.to_owned());
        Ok(())
    }
}

/// File that makes git take a folder for a repository.
pub(crate) const SIGN_OF_REPOSITORY: &str = "HEAD";

/// Returns true if the folder name ends in `.git`, so that the rules by name cover its contents.
fn is_git_by_name(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().as_bytes();
    name.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b".git"))
}

fn kept(facts: &file_identity::Facts, folder: Number, is_of_repository: bool) -> Kept {
    let is_link = facts.kind == FileType::Symlink;
    Kept { file: facts.file, made: facts.made, folder, is_link, is_of_repository }
}

/// Opens a folder for reading its entries and their properties.
fn list(folder: &Path) -> io::Result<Listed> {
    let entries = Dir::new(open_folder::open(folder, OFlags::RDONLY)?)?;
    let number = file_identity::number(&statat(entries.fd()?, ".", AtFlags::empty())?);
    Ok(Listed { entries, number })
}

fn held(folder: &Path) -> io::Result<Held> {
    let handle = open_folder::open(folder, open_folder::HANDLE)?;
    Ok(Held { path: folder.to_owned(), file: file_identity::of_open(handle.as_fd())? })
}

/// Returns true if an entry was removed since it was listed, or replaced by something that was never granted.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR))
}

#[cfg(test)]
mod tests;
