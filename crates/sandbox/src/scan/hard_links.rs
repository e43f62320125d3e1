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
use crate::scan::bounds::ScanBounds;
use crate::scan::file_identity::{self, ExpectedFile, FileFacts, FileId};
use crate::scan::inventory::too_many_paths;
use crate::scan::open_folder;
use crate::scan::walk::{DirectoryWalk, PendingFolder};

/// Most entries scanned outside the granted folders before each run. Keys are few, and a program should not
/// wait for a cache of thousands of files beside them.
const MAX_OUTSIDE: usize = 2_000;

/// Forbidden files with more than one hard link.
#[derive(Debug, Default)]
pub(crate) struct HardLinkedFiles(BTreeSet<FileId>);

impl HardLinkedFiles {
    /// Adds those at or below a hidden path, or fails if not all could be scanned.
    pub(crate) fn add_below(&mut self, hidden: &Path, bounds: &ScanBounds) -> Result<(), SandboxError> {
        match self.collect_below(hidden, &mut bounds.entries.clone(), bounds) {
            WalkExtent::Complete => Ok(()),
            WalkExtent::Partial => Err(incomplete_error(hidden, bounds)),
        }
    }

    /// Adds those at or below forbidden paths outside the granted folders, up to `MAX_OUTSIDE` entries.
    pub(crate) fn add_outside<'a>(&mut self, forbidden: impl Iterator<Item = &'a Path>, bounds: &ScanBounds) {
        let mut remaining = MAX_OUTSIDE;
        for path in forbidden {
            if self.collect_below(path, &mut remaining, bounds) == WalkExtent::Partial {
                tracing::debug!(path = %path.display(), "the path was not fully scanned for hard links");
                return;
            }
        }
    }

    /// Finds their paths in a granted folder, except below paths that are hidden already.
    pub(crate) fn find_in(
        &self,
        root: &Path,
        hidden: &BTreeSet<PathBuf>,
        bounds: &ScanBounds,
    ) -> Result<Vec<ExpectedFile>, SandboxError> {
        let (mut found, mut bytes) = (Vec::<ExpectedFile>::new(), 0_usize);
        if self.0.is_empty() {
            return Ok(found);
        }
        let seen = visit_below(root, &mut bounds.entries.clone(), bounds, |path, facts| {
            if hidden.contains(path) {
                return VisitDecision::Skip;
            }
            if self.0.contains(&facts.file) {
                bytes += path.as_os_str().len();
                found.push(ExpectedFile { path: path.to_owned(), file: facts.file });
            }
            if bounds.is_exceeded_by(found.len(), bytes) {
                VisitDecision::Stop
            } else {
                VisitDecision::Descend
            }
        });
        match seen {
            WalkExtent::Complete => Ok(found),
            WalkExtent::Partial if bounds.is_exceeded_by(found.len(), bytes) => {
                Err(too_many_paths(found.iter().map(|expected| expected.path.as_path()), &[root]))
            }
            WalkExtent::Partial => Err(incomplete_error(root, bounds)),
        }
    }

    fn collect_below(&mut self, path: &Path, remaining: &mut usize, bounds: &ScanBounds) -> WalkExtent {
        let facts = match file_identity::facts_of(path) {
            Ok(facts) => facts,
            Err(error) => return WalkExtent::from_error(&error),
        };
        let mut note = |facts: &FileFacts| {
            if facts.kind == FileType::RegularFile && facts.hard_links > 1 {
                self.0.insert(facts.file);
            }
        };
        note(&facts);
        if facts.kind != FileType::Directory {
            return WalkExtent::Complete;
        }
        visit_below(path, remaining, bounds, |_, facts| {
            note(facts);
            VisitDecision::Descend
        })
    }
}

/// Decision of the visitor after each entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VisitDecision {
    Descend,
    Skip,
    /// Stops the whole walk.
    Stop,
}

/// Extent of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkExtent {
    Complete,
    Partial,
}

/// Returns the reason of an incomplete walk whose names were not too many.
fn incomplete_error(folder: &Path, bounds: &ScanBounds) -> SandboxError {
    let too_large = SandboxError::TooLarge { folder: folder.to_owned(), limit: bounds.entries };
    bounds.check_deadline(folder).err().unwrap_or(too_large)
}

impl WalkExtent {
    /// Ignores entries that are gone or not accessible, because a confined program cannot read them either.
    /// Any other error leaves the contents unknown.
    fn from_error(error: &io::Error) -> WalkExtent {
        let is_closed = error.kind() == io::ErrorKind::PermissionDenied;
        if is_closed || scan::is_gone(error) { WalkExtent::Complete } else { WalkExtent::Partial }
    }
}

/// Visits everything below a folder, without following symbolic links.
fn visit_below(
    root: &Path,
    remaining: &mut usize,
    bounds: &ScanBounds,
    mut show: impl FnMut(&Path, &FileFacts) -> VisitDecision,
) -> WalkExtent {
    let mut walk = DirectoryWalk::starting_at(root.to_owned());
    while let Some(PendingFolder { folder, .. }) = walk.next() {
        if bounds.deadline.is_over() {
            return WalkExtent::Partial;
        }
        let mut entries = match open_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if WalkExtent::from_error(&error) == WalkExtent::Complete => continue,
            Err(_) => return WalkExtent::Partial,
        };
        walk.enter(folder.clone(), None);
        while let Some(entry) = entries.read() {
            let Ok(entry) = entry else { return WalkExtent::Partial };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let Some(fewer) = remaining.checked_sub(1) else { return WalkExtent::Partial };
            *remaining = fewer;
            if bounds.deadline.is_over() || walk.queued_bytes() > bounds.queued_bytes {
                return WalkExtent::Partial;
            }
            let facts = entries.fd().map_err(io::Error::from);
            let facts = facts.and_then(|folder| file_identity::facts_at(folder, entry.file_name()));
            let facts = match facts {
                Ok(facts) => facts,
                Err(error) if WalkExtent::from_error(&error) == WalkExtent::Complete => continue,
                Err(_) => return WalkExtent::Partial,
            };
            match show(&folder.join(name), &facts) {
                VisitDecision::Descend if facts.kind == FileType::Directory => walk.queue(name, false),
                VisitDecision::Descend | VisitDecision::Skip => {}
                VisitDecision::Stop => return WalkExtent::Partial,
            }
        }
    }
    WalkExtent::Complete
}

fn open_dir(folder: &Path) -> io::Result<Dir> {
    Ok(Dir::new(open_folder::open(folder, OFlags::RDONLY)?)?)
}

#[cfg(test)]
mod tests {
    use std::fs::hard_link;
    use std::time::Duration;

    use super::*;
    use crate::scan::cancellation::WorkDeadline;
    use crate::scan::test_folder::TestFolder;

    #[test]
    fn only_missing_or_inaccessible_entries_are_ignored() {
        use rustix::io::Errno;
        let seen = |error: Errno| WalkExtent::from_error(&io::Error::from(error));
        for error in [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::ACCESS] {
            assert_eq!(seen(error), WalkExtent::Complete, "{error}");
        }
        for error in [Errno::MFILE, Errno::NFILE, Errno::IO, Errno::NOMEM, Errno::NAMETOOLONG] {
            assert_eq!(seen(error), WalkExtent::Partial, "{error}");
        }
    }

    #[test]
    fn all_hard_links_of_forbidden_files_are_found() {
        let fixture = TestFolder::with(
            &["w/secrets/deep", "w/src/deep", "out/keys"],
            &["w/.env", "w/secrets/deep/a", "w/secrets/b", "w/src/plain", "out/keys/id", "out/token"],
        );
        let at = |name: &str| fixture.root.join(name);
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
        let mut linked = HardLinkedFiles::default();
        let (hidden, bounds) = (["w/.env", "w/secrets"].map(at), ScanBounds::after_run());
        hidden.iter().for_each(|path| linked.add_below(path, &bounds).unwrap());
        let names = |linked: &HardLinkedFiles| {
            let found = linked.find_in(&at("w"), &hidden.iter().cloned().collect(), &bounds).unwrap();
            let mut found: Vec<_> = found.into_iter().map(|expected| expected.path).collect();
            found.sort();
            found
        };
        assert_eq!(names(&linked), ["w/src/deep/two", "w/src/one"].map(at));
        let outside = [at("out/token"), at("out/keys"), at("out/gone")];
        linked.add_outside(outside.iter().map(PathBuf::as_path), &bounds);
        assert_eq!(names(&linked), ["w/four", "w/src/deep/two", "w/src/one", "w/three"].map(at));
    }

    #[test]
    fn scan_outside_granted_folders_is_bounded() {
        let fixture = TestFolder::with(&["keys"], &["keys/id"]);
        hard_link(fixture.root.join("keys/id"), fixture.root.join("other")).unwrap();
        let mut linked = HardLinkedFiles::default();
        let bounds = ScanBounds::after_run();
        assert_eq!(linked.collect_below(&fixture.root.join("keys"), &mut 0, &bounds), WalkExtent::Partial);
        assert!(linked.0.is_empty());
        assert_eq!(linked.collect_below(&fixture.root.join("keys"), &mut 1, &bounds), WalkExtent::Complete);
        assert_eq!(linked.0.len(), 1);
    }

    #[test]
    fn hard_link_scan_obeys_deadline_and_limits() {
        let fixture = TestFolder::with(&["keys", "w"], &["keys/id"]);
        for number in 0..9 {
            hard_link(fixture.root.join("keys/id"), fixture.root.join(format!("w/{number}"))).unwrap();
        }
        let (keys, w) = (fixture.root.join("keys"), fixture.root.join("w"));
        let mut linked = HardLinkedFiles::default();
        let late = ScanBounds { deadline: WorkDeadline::after(Duration::ZERO), ..ScanBounds::after_run() };
        assert!(matches!(linked.add_below(&keys, &late), Err(SandboxError::ScanTimedOut(_))));
        linked.add_below(&keys, &ScanBounds::after_run()).unwrap();
        let named = |bounds: &ScanBounds| linked.find_in(&w, &BTreeSet::new(), bounds);
        assert_eq!(named(&ScanBounds::after_run()).unwrap().len(), 9);
        assert!(matches!(named(&late), Err(SandboxError::ScanTimedOut(_))));
        let few = ScanBounds { names: 3, ..ScanBounds::after_run() };
        assert!(matches!(named(&few), Err(SandboxError::TooManyPaths { count: 4, .. })));
        let fixture = TestFolder::with(&["w/a", "w/b", "w/c"], &[]);
        let heavy = ScanBounds { queued_bytes: 100, ..ScanBounds::after_run() };
        let seen = linked.find_in(&fixture.root.join("w"), &BTreeSet::new(), &heavy);
        assert!(matches!(seen, Err(SandboxError::TooLarge { .. })), "{seen:?}");
    }
}
