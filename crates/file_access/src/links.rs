//! Bounded search for the other hard links of a file.
//!
//! A file does not record its names, and searching a whole volume takes too long. The search first covers the
//! folders where a harmless second name is likely: if all names are found there, no other name can exist.
//! Otherwise it covers the folders where a name is forbidden. If that search is incomplete, the result is
//! `Unknown`, and governance assumes the worst case.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::opened::{ObjectIdentity, OpenedObject, OpenedPath};
use crate::platform;
use crate::read::FileReader;

/// Maximum number of directory entries per search. A project has some thousands.
const MAX_ENTRIES: usize = 30_000;

/// Folders that are searched for other hard links of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardLinkSearch {
    /// Folders where a harmless second name is likely, such as a workspace with its build output.
    pub likely_folders: Vec<PathBuf>,
    /// Folders where a second name is forbidden.
    pub guarded_folders: Vec<PathBuf>,
}

/// Result of a search for other hard links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HardLinkNames {
    /// All other names, or all of them in the guarded folders.
    Known(Vec<PathBuf>),
    /// Other names may exist anywhere.
    Unknown,
}

/// Searches for the other names of an opened file that has several hard links.
pub(crate) fn find_other_names(path: &mut OpenedPath, search: &HardLinkSearch) {
    let OpenedObject::File { facts, .. } = &path.object else { return };
    if facts.links > 1 {
        let others = usize::try_from(facts.links - 1).unwrap_or(usize::MAX);
        path.other_names = LinkFinder::new(facts.identity, &path.canonical, others).search(search);
    }
}

impl FileReader {
    /// Returns the other names of a file that was visited under `known`. The result is `Unknown` if the
    /// number of links cannot be read.
    pub fn other_names(&self, known: &Path, search: &HardLinkSearch) -> HardLinkNames {
        let Ok(facts) = self.facts() else { return HardLinkNames::Unknown };
        match usize::try_from(facts.links.saturating_sub(1)).unwrap_or(usize::MAX) {
            0 => HardLinkNames::Known(Vec::new()),
            others => LinkFinder::new(facts.identity, known, others).search(search),
        }
    }
}

/// Returns true if the object needs a search. A non-blocking open leaves it to `open`.
pub(crate) fn needs_search(object: &OpenedObject) -> bool {
    matches!(object, OpenedObject::File { facts, .. } if facts.links > 1)
}

struct LinkFinder<'a> {
    identity: ObjectIdentity,
    known_path: &'a Path,
    expected_count: usize,
    found: Vec<PathBuf>,
    entries_left: usize,
}

/// Completeness of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkSearchEnd {
    Complete,
    Truncated,
}

impl<'a> LinkFinder<'a> {
    fn new(wanted: ObjectIdentity, known: &'a Path, others: usize) -> Self {
        LinkFinder {
            identity: wanted,
            known_path: known,
            expected_count: others,
            found: Vec::new(),
            entries_left: MAX_ENTRIES,
        }
    }

    fn search(mut self, search: &HardLinkSearch) -> HardLinkNames {
        let near = self.known_path.parent().map(Path::to_owned);
        for folder in near.iter().chain(&search.likely_folders) {
            self.search_folder(folder);
            if self.found.len() >= self.expected_count {
                return HardLinkNames::Known(self.found);
            }
        }
        // The root contains every file, so no limit would be enough.
        if search.guarded_folders.iter().any(|folder| folder == Path::new("/")) {
            return HardLinkNames::Unknown;
        }
        self.entries_left = MAX_ENTRIES;
        let whole =
            search.guarded_folders.iter().all(|folder| self.search_folder(folder) == LinkSearchEnd::Complete);
        if whole { HardLinkNames::Known(self.found) } else { HardLinkNames::Unknown }
    }

    /// Searches everything below a folder that is on the volume of the file.
    fn search_folder(&mut self, folder: &Path) -> LinkSearchEnd {
        let mut ahead = vec![folder.to_owned()];
        while let Some(folder) = ahead.pop() {
            match self.search_entries(&folder, &mut ahead) {
                Ok(LinkSearchEnd::Complete) => {}
                // A folder that no longer exists contains no name; one that cannot be read may.
                Err(Errno::NOENT | Errno::NOTDIR) => self.check_single_file(&folder),
                Ok(LinkSearchEnd::Truncated) | Err(_) => return LinkSearchEnd::Truncated,
            }
            if self.found.len() >= self.expected_count {
                return LinkSearchEnd::Complete;
            }
        }
        LinkSearchEnd::Complete
    }

    /// Checks a guarded path that is not a folder.
    fn check_single_file(&mut self, name: &Path) {
        if let Ok(handle) = platform::open_handle_nofollow(name)
            && let Ok(status) = platform::status(&handle)
            && status.facts.identity == self.identity
        {
            self.add(name.to_owned());
        }
    }

    fn search_entries(&mut self, folder: &Path, ahead: &mut Vec<PathBuf>) -> Result<LinkSearchEnd, Errno> {
        let handle = platform::open_handle_nofollow(folder)?;
        let status = platform::status(&handle)?;
        if status.kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        if status.facts.identity.device != self.identity.device {
            return Ok(LinkSearchEnd::Complete);
        }
        let mut directory = Dir::new(platform::reopen_directory(&handle)?)?;
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let Some(left) = self.entries_left.checked_sub(1) else { return Ok(LinkSearchEnd::Truncated) };
            self.entries_left = left;
            match entry.file_type() {
                FileType::Directory => ahead.push(folder.join(name)),
                FileType::RegularFile | FileType::Unknown => {
                    let Ok(status) = platform::status_at(&handle, name) else { continue };
                    match status.kind {
                        FileType::Directory => ahead.push(folder.join(name)),
                        _ if status.facts.identity == self.identity => self.add(folder.join(name)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Ok(LinkSearchEnd::Complete)
    }

    fn add(&mut self, name: PathBuf) {
        if name != self.known_path && !self.found.contains(&name) {
            self.found.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::WorkspaceFixture;

    fn others(fixture: &WorkspaceFixture, likely: &[&str], guarded: &[&str]) -> HardLinkNames {
        let mut opened = fixture.read("in/a");
        let paths = |list: &[&str]| list.iter().map(|name| fixture.path(name)).collect();
        let search = HardLinkSearch { likely_folders: paths(likely), guarded_folders: paths(guarded) };
        find_other_names(&mut opened, &search);
        opened.other_names().clone()
    }

    #[test]
    fn other_hard_links_are_found() {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/in/a", "x");
        fixture.file("ws/deep/er/z", "z");
        assert_eq!(others(&fixture, &["ws"], &["outside"]), HardLinkNames::Known(vec![]), "it has one name");
        fs::hard_link(fixture.path("ws/in/a"), fixture.path("ws/deep/er/b")).unwrap();
        let known =
            |names: &[&str]| HardLinkNames::Known(names.iter().map(|name| fixture.path(name)).collect());
        assert_eq!(
            others(&fixture, &["ws"], &["/"]),
            known(&["ws/deep/er/b"]),
            "all names are in the workspace"
        );
        assert_eq!(others(&fixture, &[], &["outside"]), known(&[]), "none is where it must not be");
        assert_eq!(others(&fixture, &[], &["/"]), HardLinkNames::Unknown, "everywhere is too far");
        fs::hard_link(fixture.path("ws/in/a"), fixture.path("outside/c")).unwrap();
        assert_eq!(others(&fixture, &["ws"], &["outside"]), known(&["ws/deep/er/b", "outside/c"]));
        assert_eq!(
            others(&fixture, &[], &["outside/c"]),
            known(&["outside/c"]),
            "a guarded file is a name too"
        );
        assert_eq!(others(&fixture, &[], &["nowhere"]), known(&[]));
    }

    #[test]
    fn other_hard_links_of_a_visited_file_are_found() {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/in/a", "x");
        let reader = || fixture.read("in/a").reader().unwrap();
        let search =
            HardLinkSearch { likely_folders: Vec::new(), guarded_folders: vec![fixture.path("outside")] };
        let others = || reader().other_names(&fixture.path("ws/in/a"), &search);
        assert_eq!((others(), reader().has_several_names()), (HardLinkNames::Known(vec![]), false));
        fs::hard_link(fixture.path("ws/in/a"), fixture.path("outside/c")).unwrap();
        let expect = HardLinkNames::Known(vec![fixture.path("outside/c")]);
        assert_eq!((others(), reader().has_several_names()), (expect, true));
    }

    #[test]
    fn search_stops_at_its_entry_limit() {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/in/a", "x");
        fs::create_dir(fixture.path("outside/big")).unwrap();
        fs::hard_link(fixture.path("ws/in/a"), fixture.path("outside/z")).unwrap();
        let mut finder = LinkFinder::new(ObjectIdentity { device: 0, inode: 0 }, Path::new("/nothing"), 1);
        let status = platform::status(platform::open_handle(&fixture.path("outside")).unwrap()).unwrap();
        finder.identity = ObjectIdentity { device: status.facts.identity.device, inode: u64::MAX };
        finder.entries_left = 2;
        for name in ["1", "2", "3"] {
            fixture.file(&format!("outside/big/{name}"), "");
        }
        assert!(
            finder.search_folder(&fixture.path("outside")) == LinkSearchEnd::Truncated,
            "more entries than the bound"
        );
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_taken_for_searched() {
        let Some(fixture) = WorkspaceFixture::from_parent() else {
            let fixture = WorkspaceFixture::new();
            fixture.file("ws/in/a", "x");
            fs::hard_link(fixture.path("ws/in/a"), fixture.path("outside/c")).unwrap();
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(fixture.path("outside"), fs::Permissions::from_mode(0o000)).unwrap();
            let test = "links::tests::a_folder_that_cannot_be_read_is_not_taken_for_searched";
            let output = fixture.unprivileged_child(test);
            fs::set_permissions(fixture.path("outside"), fs::Permissions::from_mode(0o700)).unwrap();
            crate::testing::assert_passed(&output);
            return;
        };
        assert_eq!(others(&fixture, &[], &["outside"]), HardLinkNames::Unknown);
    }
}
