//! Looks a folder through for what the rules know by its name, once and without following links. What is hidden is not
//! entered; what is protected is entered for what is hidden in it, before a run.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use governance::{Stands, git_acts_on, runs_by_itself};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, OFlags, statat};
use rustix::io::Errno;

use crate::bounds::Bounds;
use crate::error::SandboxError;
use crate::folder;
use crate::identity::{self, Held, Number};
use crate::inventory::{Inventory, Kept, too_many};
use crate::loosened::Loosened;
use crate::way::{Next, Way};

/// The longest path the system takes, with the longest name in it. What is below a longer one can be reached step by step
/// and not be named, neither to a mount nor to whoever is to remove it.
const LONGEST_PATH: usize = nix::libc::PATH_MAX as usize - 1 - 256;
/// What is found is handed on at least this often, and at the end of each folder.
const MOST_AT_ONCE: usize = 1_000;

/// What is done about a folder that its owner may not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It is left so, and told.
    Told,
    /// It is opened for the time being: a run may have closed it over something.
    Opened,
}

/// Looks a folder through and gathers what is found, up to as many names as are remembered. What is closed is told.
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

/// Looks a folder through, and hands on what is found while it and those above it are open. Why this was not all, if it
/// was not.
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
    /// What was found and is not handed on yet.
    found: Inventory,
    shows: &'a dyn Fn(&Path) -> bool,
    hand_on: &'a mut dyn FnMut(Inventory) -> Result<(), SandboxError>,
}

/// A folder being listed, and which one it is.
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
        let mut signs = SignsOfRepository::default();
        while let Some(entry) = listed.entries.read() {
            let entry = entry.map_err(|cause| self.problem(cause.into()))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.see_one_more()?;
            signs.see(name);
            let sorted = self.sort_in((&listed, is_held), &entry, folder.join(name));
            sorted.or_else(|error| self.unless_gone(error).map(|_: Option<()>| ()))?;
        }
        if signs.are_all_there() && !is_git_by_name(&folder) && !is_held {
            self.repository(&listed, &folder).map_err(|error| self.problem(error))?;
        }
        Ok(())
    }

    /// Goes on to another entry, unless one of the bounds is reached.
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

    /// Begins to list a folder, if it is one to be listed, and keeps it open if it must be opened for that.
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
            // Somebody else's, which no run can have made.
            return Ok(None);
        };
        let listed = list(folder)?;
        if folder == self.root {
            // It was open when the run began, and closed no run could work in it.
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
        let facts = || identity::facts_at(folder.entries.fd()?, entry.file_name());
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

    /// Nothing changes below what a run finds held, so there is nothing to look for after it.
    fn looks_into_held(&self) -> bool {
        self.closed == Closed::Told
    }

    /// Notes what git acts on in a repository that has another name than git gives them.
    fn repository(&mut self, listed: &Listed, folder: &Path) -> io::Result<()> {
        for name in git_acts_on() {
            match identity::facts_at(listed.entries.fd()?, &CString::new(name)?) {
                Ok(facts) => {
                    let path = folder.join(name);
                    self.found.kept.entry(path).or_insert_with(|| kept(&facts, listed.number, true));
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let looks_into_held = self.looks_into_held();
        self.way.hold(|name| git_acts_on().any(|acted_on| name == acted_on), looks_into_held);
        self.found.repositories.insert(folder.to_owned());
        Ok(())
    }
}

/// What has git take a folder for a repository.
pub(crate) const SIGN_OF_REPOSITORY: &str = "HEAD";

/// Names by which git knows a repository.
#[derive(Default)]
struct SignsOfRepository {
    head: bool,
    objects: bool,
    refs: bool,
    elsewhere: bool,
}

impl SignsOfRepository {
    fn see(&mut self, name: &OsStr) {
        match name.as_bytes() {
            b"HEAD" => self.head = true,
            b"objects" => self.objects = true,
            b"refs" => self.refs = true,
            b"commondir" => self.elsewhere = true,
            _ => {}
        }
    }

    fn are_all_there(&self) -> bool {
        self.head && (self.elsewhere || (self.objects && self.refs))
    }
}

/// Whether a folder's name says that it is a repository, so that the rules know what is in it.
fn is_git_by_name(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().as_bytes();
    name.last_chunk::<4>().is_some_and(|end| end.eq_ignore_ascii_case(b".git"))
}

fn kept(facts: &identity::Facts, folder: Number, is_of_repository: bool) -> Kept {
    let is_link = facts.kind == FileType::Symlink;
    Kept { file: facts.file, made: facts.made, folder, is_link, is_of_repository }
}

/// Opens a folder whose names can be read and asked about.
fn list(folder: &Path) -> io::Result<Listed> {
    let entries = Dir::new(folder::open(folder, OFlags::RDONLY)?)?;
    let number = identity::number(&statat(entries.fd()?, ".", AtFlags::empty())?);
    Ok(Listed { entries, number })
}

fn held(folder: &Path) -> io::Result<Held> {
    let handle = folder::open(folder, folder::HANDLE)?;
    Ok(Held { path: folder.to_owned(), file: identity::of_open(handle.as_fd())? })
}

/// Whether a name has gone since it was listed, or stands for something else by now, which was never granted.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR))
}

#[cfg(test)]
mod tests;
