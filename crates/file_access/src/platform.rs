//! Interface to the operating system. All code above it is platform-independent.
//!
//! A handle from this module refers to an object and, where the platform supports it, cannot be read from.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::opened::ObjectFacts;

mod by_name;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(any(target_os = "macos", test))]
mod readable_handle;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("Sinew opens paths on Linux and macOS only: write src/platform/ for this system");

pub(crate) use system::{
    MAX_PATH_BYTES, MAX_SYMLINKS, check_write_access, copy_attributes, is_local, is_magic_link, open_handle,
    open_handle_at, open_handle_nofollow, open_without_links_cached, path_of, position_after, read_cached,
    reopen_directory, reopen_for_reading, seek_directory, status_cached, sync_file,
};

/// Result of copying the attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributeCopy {
    /// The access control list was copied, or there was none.
    Complete,
    /// The access control list was not copied. The permission bits alone could grant more than the list did.
    WithoutAcl,
}

/// Kind and metadata of an object.
#[derive(Debug)]
pub(crate) struct FileStatus {
    pub(crate) kind: FileType,
    pub(crate) facts: ObjectFacts,
}

impl From<rustix::fs::Stat> for FileStatus {
    fn from(stat: rustix::fs::Stat) -> Self {
        FileStatus { kind: FileType::from_raw_mode(stat.st_mode), facts: system::facts(&stat) }
    }
}

/// Converts a Unix timestamp.
fn system_time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let whole = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    whole.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds))).unwrap_or(UNIX_EPOCH)
}

pub(crate) fn status(handle: impl AsFd) -> Result<FileStatus, Errno> {
    rustix::fs::fstat(handle).map(FileStatus::from)
}

/// Returns the status of a name in a folder. Does not follow a symbolic link.
pub(crate) fn status_at(folder: &OwnedFd, name: &OsStr) -> Result<FileStatus, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(FileStatus::from)
}
