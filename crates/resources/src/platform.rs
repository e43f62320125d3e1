//! The one seam to the operating system. Everything above it is the same on every system.
//!
//! A handle made here refers to an object and, where the system can express it, cannot be read from.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::opened::ObjectFacts;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as system;
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!("Sinew opens paths on Linux and macOS only: write src/platform/ for this system");

pub(crate) use system::{
    LONGEST_PATH, MOST_LINKS, copy_attributes, is_local, is_magic, may_write, name_of, reach, reach_at_hand,
    reach_from, reach_without_links, read_at_hand, reopen_directory, reopen_for_reading, status_at_hand,
    sync_file,
};

/// Whether the access control list of a file went along with its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It did, or there was none.
    All,
    /// It did not: the permission bits alone would say more than it did.
    WithoutList,
}

/// What an object is and what is known of it.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) kind: FileType,
    pub(crate) facts: ObjectFacts,
}

impl From<rustix::fs::Stat> for Status {
    fn from(stat: rustix::fs::Stat) -> Self {
        Status { kind: FileType::from_raw_mode(stat.st_mode), facts: system::facts(&stat) }
    }
}

/// A time as the system counts it.
fn moment(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let whole = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    whole.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds))).unwrap_or(UNIX_EPOCH)
}

pub(crate) fn status(handle: impl AsFd) -> Result<Status, Errno> {
    rustix::fs::fstat(handle).map(Status::from)
}

/// The status of a name in a folder; of the link itself where the name is one.
pub(crate) fn status_at(folder: &OwnedFd, name: &OsStr) -> Result<Status, Errno> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(Status::from)
}
