//! Handles of a system that has no descriptor which only refers to an object: they are opened for reading,
//! without blocking and never on a special file. Used on macOS, and by tests on Linux.

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::FileStatus;
use crate::opened::ObjectIdentity;

const HANDLE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Flags of a directory that can be listed.
pub(crate) const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a file or a directory. `search` are the flags for a directory that may be traversed but not listed.
pub(crate) fn open(
    folder: BorrowedFd<'_>,
    path: &OsStr,
    extra: OFlags,
    search: OFlags,
) -> Result<OwnedFd, Errno> {
    // Opening a FIFO would wake its writer, and opening a device may have effects, so both are refused first.
    let status = FileStatus::from(rustix::fs::statat(folder, path, AtFlags::empty())?);
    if !matches!(status.kind, FileType::RegularFile | FileType::Directory) {
        return Err(Errno::OPNOTSUPP);
    }
    let with = |flags| retry_on_intr(|| rustix::fs::openat(folder, path, flags | extra, Mode::empty()));
    match with(HANDLE_FLAGS) {
        Err(Errno::ACCESS) if status.kind == FileType::Directory => {
            with(search | OFlags::DIRECTORY | OFlags::CLOEXEC)
        }
        opened => opened,
    }
}

/// Duplicates the handle, which can be read from. Readers keep their own position.
pub(crate) fn reopen_for_reading(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(handle, 0)
}

/// Opens the directory again, for listing and syncing. A directory that may be listed but not traversed has
/// no `.`; `by_name` then opens it by its current name.
pub(crate) fn reopen_directory(
    handle: &OwnedFd,
    by_name: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    match retry_on_intr(|| rustix::fs::openat(handle, ".", DIRECTORY_FLAGS, Mode::empty())) {
        Err(Errno::ACCESS) => {
            let again = by_name()?;
            let identity = |handle: &OwnedFd| super::status(handle).map(|status| status.facts.identity);
            if identity(&again)? == identity(handle)? { Ok(again) } else { Err(Errno::NOENT) }
        }
        opened => opened,
    }
}

/// Checks that this process may write to the file in place.
pub(crate) fn check_write_access(_handle: &OwnedFd, folder: &OwnedFd, leaf: &OsStr) -> Result<(), Errno> {
    rustix::fs::accessat(folder, leaf, Access::WRITE_OK, AtFlags::empty())
}

/// Returns the name of an object below `root`, if the object is reported below `volume` and its name below
/// `root` leads to it as well. macOS shows folders of its writable volume at the root, as firmlinks.
pub(crate) fn name_below_root(
    name: &Path,
    (volume, root): (&Path, &Path),
    identity: ObjectIdentity,
) -> Option<PathBuf> {
    let through_root = root.join(name.strip_prefix(volume).ok()?);
    let there = rustix::fs::statat(CWD, &through_root, AtFlags::SYMLINK_NOFOLLOW).map(FileStatus::from);
    there.is_ok_and(|there| there.facts.identity == identity).then_some(through_root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform;
    use crate::testing::WorkspaceFixture;

    #[test]
    fn names_on_the_data_volume_are_shown_below_the_root() {
        let fixture = WorkspaceFixture::new();
        let (volume, root) = (fixture.path("volume"), fixture.path("ws"));
        let file = fixture.file("volume/users/f", "f");
        let other = fixture.file("volume/only_there", "x");
        fixture.file("ws/only_there", "another file");
        // A hard link stands for the firmlink: another name, without a symbolic link at its end.
        fixture.file("ws/users/.keep", "");
        std::fs::hard_link(&file, fixture.path("ws/users/f")).unwrap();
        let reported_path = |name: &Path| {
            let identity = platform::status(platform::open_handle(name).unwrap()).unwrap().facts.identity;
            name_below_root(name, (&volume, &root), identity)
        };
        assert_eq!(reported_path(&file), Some(fixture.path("ws/users/f")));
        assert_eq!(reported_path(&other), None, "another object has that name");
        assert_eq!(reported_path(&fixture.path("outside/secret")), None, "on another volume");
        std::fs::remove_file(fixture.path("ws/users/f")).unwrap();
        fixture.link("ws/users/f", &file);
        assert_eq!(reported_path(&file), None, "a symbolic link is no firmlink");
    }

    #[test]
    fn a_listed_folder_is_reopened_by_name_only_as_itself() {
        use std::os::unix::fs::PermissionsExt;
        if let Some(fixture) = WorkspaceFixture::from_parent() {
            let listable = |name: &str| Ok(std::fs::File::open(fixture.path(name))?.into());
            let open = |name: &str| listable(name).map_err(|_: std::io::Error| Errno::ACCESS);
            let handle = open("ws").unwrap();
            assert!(reopen_directory(&handle, || open("ws")).is_ok());
            assert_eq!(reopen_directory(&handle, || open("outside")).unwrap_err(), Errno::NOENT);
            return;
        }
        let fixture = WorkspaceFixture::new();
        let mode = |mode| {
            std::fs::set_permissions(fixture.path("ws"), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o400);
        let test = "platform::readable_handle::tests::a_listed_folder_is_reopened_by_name_only_as_itself";
        let output = fixture.unprivileged_child(test);
        mode(0o700);
        crate::testing::assert_passed(&output);
    }

    #[test]
    fn a_folder_without_read_permission_is_opened_for_search() {
        use std::os::unix::fs::PermissionsExt;
        if let Some(fixture) = WorkspaceFixture::from_parent() {
            let open = |name: &str| {
                open(CWD, fixture.path(name).as_os_str(), OFlags::empty(), platform::system::SEARCH_FLAGS)
            };
            assert!(open("ws").is_ok(), "may be traversed");
            assert_eq!(open("ws/f").unwrap_err(), Errno::ACCESS, "a file without read permission");
            return;
        }
        let fixture = WorkspaceFixture::new();
        let file = fixture.file("ws/f", "f");
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&file, 0o200);
        mode(&fixture.path("ws"), 0o300);
        let test = "platform::readable_handle::tests::a_folder_without_read_permission_is_opened_for_search";
        let output = fixture.unprivileged_child(test);
        mode(&fixture.path("ws"), 0o700);
        crate::testing::assert_passed(&output);
    }
}
