//! File identity that is not fooled by reused inode numbers.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Stat, fstat};

/// Device and inode number of a file.
pub(crate) type FileId = (u64, u64);

/// A path and the file that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedFile {
    pub(crate) path: PathBuf,
    pub(crate) file: FileId,
}

/// Properties that identify a file, now and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) file: FileId,
    pub(crate) kind: FileType,
    /// Creation time; where the system does not report it, the time of the last change. Programs can set
    /// neither.
    pub(crate) created: (u64, u64),
    /// Number of hard links.
    pub(crate) hard_links: u64,
}

/// Returns the properties of the file at this path.
pub(crate) fn facts_of(path: &Path) -> io::Result<FileFacts> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    facts_at(CWD, &name)
}

/// Returns the properties of an entry of a folder, without following a symbolic link.
#[cfg(target_os = "linux")]
pub(crate) fn facts_at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<FileFacts> {
    use rustix::fs::{AtFlags, StatxFlags, makedev, statx};
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let facts = statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let has_time = StatxFlags::from_bits_retain(facts.stx_mask).contains(StatxFlags::BTIME);
    let made = if has_time { facts.stx_btime } else { facts.stx_ctime };
    Ok(FileFacts {
        file: (makedev(facts.stx_dev_major, facts.stx_dev_minor), facts.stx_ino),
        kind: FileType::from_raw_mode(facts.stx_mode.into()),
        created: (made.tv_sec.cast_unsigned(), made.tv_nsec.into()),
        hard_links: facts.stx_nlink.into(),
    })
}

/// Like the Linux version, but uses the change time in place of the creation time.
#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_cast, reason = "field sizes differ between systems")]
pub(crate) fn facts_at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<FileFacts> {
    let facts = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileFacts {
        file: file_id(&facts),
        kind: FileType::from_raw_mode(facts.st_mode),
        created: (facts.st_ctime as u64, facts.st_ctime_nsec as u64),
        hard_links: facts.st_nlink as u64,
    })
}

/// Returns the identity of an open file.
pub(crate) fn file_id_of_open(file: impl AsFd) -> io::Result<FileId> {
    Ok(file_id(&fstat(file)?))
}

#[allow(clippy::unnecessary_cast, reason = "field sizes differ between systems")]
pub(crate) fn file_id(facts: &Stat) -> FileId {
    (facts.st_dev as u64, facts.st_ino as u64)
}
