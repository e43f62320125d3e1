//! Facts about the git directories that a path leads into, for the judge, and the check right before a change.
//!
//! The facts are gathered when a path is opened. Two calls that each add one of the last two entries would
//! both pass then. So the entry itself is checked once more through the handle of its directory, while no
//! other call can change a relevant entry there.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;
use tool::git::{GitDirectory, GitEntry, is_git_entry};

use crate::error::AccessError;
use crate::opened::EntryLocation;

/// Returns the relation of a canonical path to the git directories above it, if no tool may change it.
pub(crate) fn entry_at(canonical: &Path) -> Option<GitEntry> {
    let parts = canonical.ancestors().filter_map(|path| path.parent().zip(path.file_name()));
    let counted = parts.filter(|(_, name)| is_git_entry(name));
    let mut found = counted.filter_map(|(folder, name)| {
        let exists = |marker: &str| is_there(rustix::fs::lstat(folder.join(marker)).map(drop));
        entries(exists).closes(name)
    });
    // Any one of them closes the path; which one is reported does not matter.
    found.next()
}

/// Refuses a change of an entry by which its directory is, or would become, a git directory.
pub(crate) fn refuse_entry(location: &EntryLocation) -> Result<(), AccessError> {
    if !is_git_entry(&location.leaf) {
        return Ok(());
    }
    match entries_of(&location.folder).closes(&location.leaf) {
        None => Ok(()),
        Some(entry) => Err(AccessError::GitDirectory { path: location.path(), entry }),
    }
}

fn entries_of(folder: &OwnedFd) -> GitDirectory {
    entries(|marker| is_there(rustix::fs::statat(folder, marker, AtFlags::SYMLINK_NOFOLLOW).map(drop)))
}

fn entries(exists: impl Fn(&str) -> bool) -> GitDirectory {
    let mut directory = GitDirectory::default();
    let found = GitDirectory::MARKERS.into_iter().filter(|marker| exists(marker));
    found.for_each(|marker| directory.add(marker.as_ref()));
    directory
}

/// Returns true unless the status proves that the path does not exist. Any other error counts as present.
fn is_there(status: Result<(), Errno>) -> bool {
    !matches!(status, Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::testing::WorkspaceFixture;

    #[test]
    fn a_path_is_closed_by_any_git_directory_on_its_way() {
        let fixture = WorkspaceFixture::new();
        for file in ["ws/bare/HEAD", "ws/bare/objects/x", "ws/bare/refs/x", "ws/part/HEAD", "ws/part/refs/x"]
        {
            fixture.file(file, "");
        }
        let check = |path: &str, expect: Option<GitEntry>| {
            assert_eq!(entry_at(&fixture.path(path)), expect, "{path}");
        };
        for path in ["ws/bare/config", "ws/bare/hooks/pre-commit", "ws/bare/hooks/a/b", "ws/bare/HEAD"] {
            check(path, Some(GitEntry::Existing));
        }
        for path in ["ws/part/objects", "ws/part/objects/pack/x", "ws/part/commondir"] {
            check(path, Some(GitEntry::Completing));
        }
        for path in
            ["ws/bare/README", "ws/bare", "ws/part/config", "ws/HEAD", "ws/none/objects/x", "ws/a/HEAD"]
        {
            check(path, None);
        }
    }

    #[test]
    fn two_writers_cannot_complete_a_git_directory_together() {
        for round in 0..50 {
            let fixture = WorkspaceFixture::new();
            fixture.file(&format!("ws/{round}/HEAD"), "ref: refs/heads/main\n");
            let last = ["objects", "refs"].map(|name| format!("ws/{round}/{name}"));
            // Opened before either is made, as two calls that are judged at the same time.
            let opened = last.each_ref().map(|name| fixture.write(name.strip_prefix("ws/").unwrap()));
            let (start, recorder) = (Barrier::new(2), fixture.recorder());
            let made = std::thread::scope(|scope| {
                let writers = opened.each_ref().map(|path| {
                    scope.spawn(|| {
                        start.wait();
                        path.create_folders(&recorder).is_ok()
                    })
                });
                writers.map(|writer| writer.join().unwrap())
            });
            assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
        }
    }
}
