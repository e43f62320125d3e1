//! Hard links of files that must be hidden. A mount covers one path, so a forbidden file that has a second
//! path in a granted folder must be covered there too. This module only finds the paths; it hides nothing.
//!
//! A path does not reveal the other hard links of its file. Files with several links are collected where they
//! are forbidden; only if there are any are the granted folders scanned for their inodes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, OFlags};

use crate::error::SandboxError;
use crate::scan;
use crate::scan::bounds::Bounds;
use crate::scan::file_identity::{self, Facts, Held, Number};
use crate::scan::inventory::too_many;
use crate::scan::open_folder;
use crate::scan::walk::{Next, Way};

/// Most entries scanned outside the granted folders before each run. Keys are few, and a program should not
/// wait for a cache of thousands of files beside them.
const MOST_OUTSIDE: usize = 2_000;

/// Forbidden files with more than one hard link.
#[derive(Debug, Default)]
pub(crate) struct Linked(BTreeSet<Number>);

impl Linked {
    /// Adds those at or below a hidden path, or fails if not all could be scanned.
    pub(crate) fn note(&mut self, hidden: &Path, bounds: &Bounds) -> Result<(), SandboxError> {
        match self.below(hidden, &mut bounds.entries.clone(), bounds) {
            Seen::All => Ok(()),
            Seen::Part => Err(not_all(hidden, bounds)),
        }
    }

    /// Adds those at or below forbidden paths outside the granted folders, up to `MAX_OUTSIDE` entries.
    pub(crate) fn note_outside<'a>(&mut self, forbidden: impl Iterator<Item = &'a Path>, bounds: &Bounds) {
        let mut left = MOST_OUTSIDE;
        for path in forbidden {
            if self.below(path, &mut left, bounds) == Seen::Part {
                tracing::debug!(path = %path.display(), "the path was not fully scanned for hard links");
                return;
            }
        }
    }

    /// Finds their paths in a granted folder, except below paths that are hidden already.
    pub(crate) fn names_in(
        &self,
        root: &Path,
        hidden: &BTreeSet<PathBuf>,
        bounds: &Bounds,
    ) -> Result<Vec<Held>, SandboxError> {
        let (mut found, mut bytes) = (Vec::<Held>::new(), 0_usize);
        if self.0.is_empty() {
            return Ok(found);
        }
        let seen = each_below(root, &mut bounds.entries.clone(), bounds, |path, facts| {
            if hidden.contains(path) {
                return Enter::No;
            }
            if self.0.contains(&facts.file) {
                bytes += path.as_os_str().len();
                found.push(Held { path: path.to_owned(), file: facts.file });
            }
            if bounds.are_too_many(found.len(), bytes) { Enter::NoMore } else { Enter::Yes }
        });
        match seen {
            Seen::All => Ok(found),
            Seen::Part if bounds.are_too_many(found.len(), bytes) => {
                Err(too_many(found.iter().map(|held| held.path.as_path()), &[root]))
            }
            Seen::Part => Err(not_all(root, bounds)),
        }
    }

    fn below(&mut self, path: &Path, left: &mut usize, bounds: &Bounds) -> Seen {
        let facts = match file_identity::facts_of(path) {
            Ok(facts) => facts,
            Err(error) => return Seen::unless_closed(&error),
        };
        let mut note = |facts: &Facts| {
            if facts.kind == FileType::RegularFile && facts.names > 1 {
                self.0.insert(facts.file);
            }
        };
        note(&facts);
        if facts.kind != FileType::Directory {
            return Seen::All;
        }
        each_below(path, left, bounds, |_, facts| {
            note(facts);
            Enter::Yes
        })
    }
}

/// Decision of the visitor after each entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enter {
    Yes,
    No,
    /// Stops the whole walk.
    NoMore,
}

/// Extent of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    All,
    Part,
}

/// Returns the reason of an incomplete walk whose names were not too many.
fn not_all(folder: &Path, bounds: &Bounds) -> SandboxError {
    let too_large = SandboxError::TooLarge { folder: folder.to_owned(), limit: bounds.entries };
    bounds.refuse_late(folder).err().unwrap_or(too_large)
}

impl Seen {
    /// Ignores entries that are gone or not accessible, because a confined program cannot read them either.
    /// Any other error leaves the contents unknown.
    fn unless_closed(error: &io::Error) -> Seen {
        let is_closed = error.kind() == io::ErrorKind::PermissionDenied;
        if is_closed || scan::is_gone(error) { Seen::All } else { Seen::Part }
    }
}

/// Visits everything below a folder, without following symbolic links.
fn each_below(
    root: &Path,
    left: &mut usize,
    bounds: &Bounds,
    mut show: impl FnMut(&Path, &Facts) -> Enter,
) -> Seen {
    let mut way = Way::from(root.to_owned());
    while let Some(Next { folder, .. }) = way.next() {
        if bounds.until.is_over() {
            return Seen::Part;
        }
        let mut entries = match list(&folder) {
            Ok(entries) => entries,
            Err(error) if Seen::unless_closed(&error) == Seen::All => continue,
            Err(_) => return Seen::Part,
        };
        way.enter(folder.clone(), None);
        while let Some(entry) = entries.read() {
            let Ok(entry) = entry else { return Seen::Part };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let Some(fewer) = left.checked_sub(1) else { return Seen::Part };
            *left = fewer;
            if bounds.until.is_over() || way.bytes() > bounds.waiting {
                return Seen::Part;
            }
            let facts = entries.fd().map_err(io::Error::from);
            let facts = facts.and_then(|folder| file_identity::facts_at(folder, entry.file_name()));
            let facts = match facts {
                Ok(facts) => facts,
                Err(error) if Seen::unless_closed(&error) == Seen::All => continue,
                Err(_) => return Seen::Part,
            };
            match show(&folder.join(name), &facts) {
                Enter::Yes if facts.kind == FileType::Directory => way.later(name, false),
                Enter::Yes | Enter::No => {}
                Enter::NoMore => return Seen::Part,
            }
        }
    }
    Seen::All
}

fn list(folder: &Path) -> io::Result<Dir> {
    Ok(Dir::new(open_folder::open(folder, OFlags::RDONLY)?)?)
}

#[cfg(test)]
mod tests {
    use std::fs::hard_link;
    use std::time::Duration;

    use super::*;
    use crate::scan::cancellation::Until;
    use crate::scan::test_folder::World;

    #[test]
    fn only_missing_or_inaccessible_entries_are_ignored() {
        use rustix::io::Errno;
        let seen = |error: Errno| Seen::unless_closed(&io::Error::from(error));
        for error in [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS] {
            assert_eq!(seen(error), Seen::All, "{error}");
        }
        for error in [Errno::MFILE, Errno::NFILE, Errno::IO, Errno::NOMEM, Errno::NAMETOOLONG] {
            assert_eq!(seen(error), Seen::Part, "{error}");
        }
    }

    #[test]
    fn all_hard_links_of_forbidden_files_are_found() {
        let world = World::with(
            &["w/secrets/deep", "w/src/deep", "out/keys"],
            &["w/.env", "w/secrets/deep/a", "w/secrets/b", "w/src/plain", "out/keys/id", "out/token"],
        );
        let at = |name: &str| world.root.join(name);
        for (file, name) in [
            ("w/.env", "w/src/one"),
            ("w/secrets/deep/a", "w/src/deep/two"),
            ("w/secrets/b", "w/secrets/c"),
            ("out/keys/id", "w/three"),
            ("out/token", "w/four"),
            ("w/src/plain", "w/src/other"),
        ] {
            hard_link(at(file), at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("w/.env"), at("w/link")).unwrap();
        let mut linked = Linked::default();
        let (hidden, bounds) = (["w/.env", "w/secrets"].map(at), Bounds::after());
        hidden.iter().for_each(|path| linked.note(path, &bounds).unwrap());
        let names = |linked: &Linked| {
            let found = linked.names_in(&at("w"), &hidden.iter().cloned().collect(), &bounds).unwrap();
            let mut found: Vec<_> = found.into_iter().map(|held| held.path).collect();
            found.sort();
            found
        };
        assert_eq!(names(&linked), ["w/src/deep/two", "w/src/one"].map(at));
        let outside = [at("out/token"), at("out/keys"), at("out/gone")];
        linked.note_outside(outside.iter().map(PathBuf::as_path), &bounds);
        assert_eq!(names(&linked), ["w/four", "w/src/deep/two", "w/src/one", "w/three"].map(at));
    }

    #[test]
    fn scan_outside_granted_folders_is_bounded() {
        let world = World::with(&["keys"], &["keys/id"]);
        hard_link(world.root.join("keys/id"), world.root.join("other")).unwrap();
        let mut linked = Linked::default();
        let bounds = Bounds::after();
        assert_eq!(linked.below(&world.root.join("keys"), &mut 0, &bounds), Seen::Part);
        assert!(linked.0.is_empty());
        assert_eq!(linked.below(&world.root.join("keys"), &mut 1, &bounds), Seen::All);
        assert_eq!(linked.0.len(), 1);
    }

    #[test]
    fn hard_link_scan_obeys_deadline_and_limits() {
        let world = World::with(&["keys", "w"], &["keys/id"]);
        for number in 0..9 {
            hard_link(world.root.join("keys/id"), world.root.join(format!("w/{number}"))).unwrap();
        }
        let (keys, w) = (world.root.join("keys"), world.root.join("w"));
        let mut linked = Linked::default();
        let late = Bounds { until: Until::after(Duration::ZERO), ..Bounds::after() };
        assert!(matches!(linked.note(&keys, &late), Err(SandboxError::OutOfTime(_))));
        linked.note(&keys, &Bounds::after()).unwrap();
        let named = |bounds: &Bounds| linked.names_in(&w, &BTreeSet::new(), bounds);
        assert_eq!(named(&Bounds::after()).unwrap().len(), 9);
        assert!(matches!(named(&late), Err(SandboxError::OutOfTime(_))));
        let few = Bounds { names: 3, ..Bounds::after() };
        assert!(matches!(named(&few), Err(SandboxError::TooManyNames { count: 4, .. })));
        let world = World::with(&["w/a", "w/b", "w/c"], &[]);
        let heavy = Bounds { waiting: 100, ..Bounds::after() };
        let seen = linked.names_in(&world.root.join("w"), &BTreeSet::new(), &heavy);
        assert!(matches!(seen, Err(SandboxError::TooLarge { .. })), "{seen:?}");
    }
}
