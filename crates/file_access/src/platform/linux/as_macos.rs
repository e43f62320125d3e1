//! Selects for a run of the tests how paths are opened, and simulates the handles of macOS on Linux.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use super::component_walk::{self, Links};
use super::{NamedHandles, OpenWay, ReferringHandles};
use crate::platform::readable_handle::{self, DIRECTORY_FLAGS};

/// In place of `O_SEARCH`, which Linux does not have.
pub(crate) const SEARCH_FLAGS: OFlags = OFlags::PATH;

/// Returns the way that `SINEW_TESTS_OPEN` selects. Tests of the built program take `openat2` away instead.
pub(super) fn selected_way() -> Option<OpenWay> {
    match std::env::var("SINEW_TESTS_OPEN").ok()?.as_str() {
        "by_name" => Some(OpenWay::ByName),
        "as_macos" => Some(OpenWay::AsMacos),
        other => panic!("SINEW_TESTS_OPEN is `{other}`, not `by_name` or `as_macos`"),
    }
}

/// Descriptors for reading.
pub(super) struct ReadableHandles;

impl NamedHandles for ReadableHandles {
    fn open(folder: BorrowedFd<'_>, path: &OsStr) -> Result<OwnedFd, Errno> {
        // macOS has no magic links, so the simulation must not follow them either.
        let exists = component_walk::open(folder, path, Links::FollowText);
        match readable_handle::open(folder, path, OFlags::empty(), SEARCH_FLAGS) {
            Ok(opened) => exists.map(|_| opened),
            Err(errno) => Err(exists.err().unwrap_or(errno)),
        }
    }

    fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
        let (folder, leaf) = folder_and_name(path)?;
        readable_handle::open(folder.as_fd(), &leaf, OFlags::NOFOLLOW, SEARCH_FLAGS)
    }

    fn current_path(handle: &OwnedFd) -> Result<PathBuf, Errno> {
        ReferringHandles::current_path(handle)
    }
}

/// Reopens a directory for listing, as on macOS.
pub(super) fn reopen_directory(handle: &OwnedFd) -> Result<OwnedFd, Errno> {
    readable_handle::reopen_directory(handle, || {
        let (folder, leaf) = folder_and_name(&ReadableHandles::current_path(handle)?)?;
        rustix::fs::openat(folder, leaf, DIRECTORY_FLAGS | OFlags::NOFOLLOW, Mode::empty())
    })
}

/// Opens the folder of a path without following a link. The flag of macOS that refuses links everywhere does
/// not exist here, and `O_NOFOLLOW` refuses one only at the end.
fn folder_and_name(path: &Path) -> Result<(OwnedFd, OsString), Errno> {
    let (folder, leaf) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(leaf)) => (folder, leaf),
        _ => (path, OsStr::new(".")),
    };
    Ok((component_walk::open(CWD, folder.as_os_str(), Links::Refuse)?, leaf.to_owned()))
}
