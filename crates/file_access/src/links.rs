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

use crate::opened::{Identity, Object, OpenedPath};
use crate::platform;
use crate::read::Reader;

/// Maximum number of directory entries per search. A project has some thousands.
const MOST_ENTRIES: usize = 30_000;

/// Folders that are searched for other hard links of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkSearch {
    /// Folders where a harmless second name is likely, such as a workspace with its build output.
    pub likely: Vec<PathBuf>,
    /// Folders where a second name is forbidden.
    pub guarded: Vec<PathBuf>,
}

/// Result of a search for other hard links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherNames {
    /// All other names, or all of them in the guarded folders.
    Known(Vec<PathBuf>),
    /// Other names may exist anywhere.
    Unknown,
}

/// Searches for the other names of an opened file that has several hard links.
pub(crate) fn look(path: &mut OpenedPath, search: &LinkSearch) {
    let Object::File { facts, .. } = &path.object else { return };
    if facts.links > 1 {
        let others = usize::try_from(facts.links - 1).unwrap_or(usize::MAX);
        path.other_names = Walk::new(facts.identity, &path.canonical, others).through(search);
    }
}

impl Reader {
    /// Returns the other names of a file that was visited under `known`. The result is `Unknown` if the
    /// number of links cannot be read.
    pub fn other_names(&self, known: &Path, search: &LinkSearch) -> OtherNames {
        let Ok(facts) = self.facts() else { return OtherNames::Unknown };
        match usize::try_from(facts.links.saturating_sub(1)).unwrap_or(usize::MAX) {
            0 => OtherNames::Known(Vec::new()),
            others => Walk::new(facts.identity, known, others).through(search),
        }
    }
}

/// Returns true if the object needs a search. A non-blocking open leaves it to `open`.
pub(crate) fn is_due(object: &Object) -> bool {
    matches!(object, Object::File { facts, .. } if facts.links > 1)
}

struct Walk<'a> {
    wanted: Identity,
    known: &'a Path,
    others: usize,
    found: Vec<PathBuf>,
    left: usize,
}

/// Completeness of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Cut,
}

impl<'a> Walk<'a> {
    fn new(wanted: Identity, known: &'a Path, others: usize) -> Self {
        Walk { wanted, known, others, found: Vec::new(), left: MOST_ENTRIES }
    }

    fn through(mut self, search: &LinkSearch) -> OtherNames {
        let near = self.known.parent().map(Path::to_owned);
        for folder in near.iter().chain(&search.likely) {
            self.folder(folder);
            if self.found.len() >= self.others {
                return OtherNames::Known(self.found);
            }
        }
        // The root contains every file, so no limit would be enough.
        if search.guarded.iter().any(|folder| folder == Path::new("/")) {
            return OtherNames::Unknown;
        }
        self.left = MOST_ENTRIES;
        let whole = search.guarded.iter().all(|folder| self.folder(folder) == End::Whole);
        if whole { OtherNames::Known(self.found) } else { OtherNames::Unknown }
    }

    /// Searches everything below a folder that is on the volume of the file.
    fn folder(&mut self, folder: &Path) -> End {
        let mut ahead = vec![folder.to_owned()];
        while let Some(folder) = ahead.pop() {
            match self.entries(&folder, &mut ahead) {
                Ok(End::Whole) => {}
                // A folder that no longer exists contains no name; one that cannot be read may.
                Err(Errno::NOENT | Errno::NOTDIR) => self.alone(&folder),
                Ok(End::Cut) | Err(_) => return End::Cut,
            }
            if self.found.len() >= self.others {
                return End::Whole;
            }
        }
        End::Whole
    }

    /// Checks a guarded path that is not a folder.
    fn alone(&mut self, name: &Path) {
        if let Ok(handle) = platform::reach_without_links(name)
            && let Ok(status) = platform::status(&handle)
            && status.facts.identity == self.wanted
        {
            self.add(name.to_owned());
        }
    }

    fn entries(&mut self, folder: &Path, ahead: &mut Vec<PathBuf>) -> Result<End, Errno> {
        let handle = platform::reach_without_links(folder)?;
        let status = platform::status(&handle)?;
        if status.kind != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        if status.facts.identity.device != self.wanted.device {
            return Ok(End::Whole);
        }
        let mut directory = Dir::new(platform::reopen_directory(&handle)?)?;
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let Some(left) = self.left.checked_sub(1) else { return Ok(End::Cut) };
            self.left = left;
            match entry.file_type() {
                FileType::Directory => ahead.push(folder.join(name)),
                FileType::RegularFile | FileType::Unknown => {
                    let Ok(status) = platform::status_at(&handle, name) else { continue };
                    match status.kind {
                        FileType::Directory => ahead.push(folder.join(name)),
                        _ if status.facts.identity == self.wanted => self.add(folder.join(name)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Ok(End::Whole)
    }

    fn add(&mut self, name: PathBuf) {
        if name != self.known && !self.found.contains(&name) {
            self.found.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::World;

    fn others(world: &World, likely: &[&str], guarded: &[&str]) -> OtherNames {
        let mut opened = world.read("in/a");
        let paths = |list: &[&str]| list.iter().map(|name| world.path(name)).collect();
        let search = LinkSearch { likely: paths(likely), guarded: paths(guarded) };
        look(&mut opened, &search);
        opened.other_names().clone()
    }

    #[test]
    fn other_hard_links_are_found() {
        let world = World::new();
        world.file("ws/in/a", "x");
        world.file("ws/deep/er/z", "z");
        assert_eq!(others(&world, &["ws"], &["outside"]), OtherNames::Known(vec![]), "it has one name");
        fs::hard_link(world.path("ws/in/a"), world.path("ws/deep/er/b")).unwrap();
        let known = |names: &[&str]| OtherNames::Known(names.iter().map(|name| world.path(name)).collect());
        assert_eq!(
            others(&world, &["ws"], &["/"]),
            known(&["ws/deep/er/b"]),
            "all names are in the workspace"
        );
        assert_eq!(others(&world, &[], &["outside"]), known(&[]), "none is where it must not be");
        assert_eq!(others(&world, &[], &["/"]), OtherNames::Unknown, "everywhere is too far");
        fs::hard_link(world.path("ws/in/a"), world.path("outside/c")).unwrap();
        assert_eq!(others(&world, &["ws"], &["outside"]), known(&["ws/deep/er/b", "outside/c"]));
        assert_eq!(
            others(&world, &[], &["outside/c"]),
            known(&["outside/c"]),
            "a guarded file is a name too"
        );
        assert_eq!(others(&world, &[], &["nowhere"]), known(&[]));
    }

    #[test]
    fn other_hard_links_of_a_visited_file_are_found() {
        let world = World::new();
        world.file("ws/in/a", "x");
        let reader = || world.read("in/a").reader().unwrap();
        let search = LinkSearch { likely: Vec::new(), guarded: vec![world.path("outside")] };
        let others = || reader().other_names(&world.path("ws/in/a"), &search);
        assert_eq!((others(), reader().has_several_names()), (OtherNames::Known(vec![]), false));
        fs::hard_link(world.path("ws/in/a"), world.path("outside/c")).unwrap();
        let expect = OtherNames::Known(vec![world.path("outside/c")]);
        assert_eq!((others(), reader().has_several_names()), (expect, true));
    }

    #[test]
    fn search_stops_at_its_entry_limit() {
        let world = World::new();
        world.file("ws/in/a", "x");
        fs::create_dir(world.path("outside/big")).unwrap();
        fs::hard_link(world.path("ws/in/a"), world.path("outside/z")).unwrap();
        let mut walk = Walk::new(Identity { device: 0, inode: 0 }, Path::new("/nothing"), 1);
        let status = platform::status(platform::reach(&world.path("outside")).unwrap()).unwrap();
        walk.wanted = Identity { device: status.facts.identity.device, inode: u64::MAX };
        walk.left = 2;
        for name in ["1", "2", "3"] {
            world.file(&format!("outside/big/{name}"), "");
        }
        assert!(walk.folder(&world.path("outside")) == End::Cut, "more entries than the bound");
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_taken_for_searched() {
        let Some(world) = World::of_parent() else {
            let world = World::new();
            world.file("ws/in/a", "x");
            fs::hard_link(world.path("ws/in/a"), world.path("outside/c")).unwrap();
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(world.path("outside"), fs::Permissions::from_mode(0o000)).unwrap();
            let test = "links::tests::a_folder_that_cannot_be_read_is_not_taken_for_searched";
            let output = world.unprivileged_child(test);
            fs::set_permissions(world.path("outside"), fs::Permissions::from_mode(0o700)).unwrap();
            crate::testing::assert_passed(&output);
            return;
        };
        assert_eq!(others(&world, &[], &["outside"]), OtherNames::Unknown);
    }
}
