//! Which file has a name, told so that another one with the same number is not taken for it: numbers are given out again.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Stat, fstat};

/// A file's device, and its number there.
pub(crate) type Number = (u64, u64);

/// A name, and the file that must have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) path: PathBuf,
    pub(crate) file: Number,
}

/// What tells a file from any other, now and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) file: Number,
    pub(crate) kind: FileType,
    /// When it was made. Where the system does not say, when it was last changed: no program sets either.
    pub(crate) made: (u64, u64),
    /// How many names it has.
    pub(crate) names: u64,
}

/// What this name stands for.
pub(crate) fn facts_of(path: &Path) -> io::Result<Facts> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    facts_at(CWD, &name)
}

/// What a name in a folder stands for, itself and not what it links to.
#[cfg(target_os = "linux")]
pub(crate) fn facts_at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Facts> {
    use rustix::fs::{AtFlags, StatxFlags, makedev, statx};
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let facts = statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let says_when = StatxFlags::from_bits_retain(facts.stx_mask).contains(StatxFlags::BTIME);
    let made = if says_when { facts.stx_btime } else { facts.stx_ctime };
    Ok(Facts {
        file: (makedev(facts.stx_dev_major, facts.stx_dev_minor), facts.stx_ino),
        kind: FileType::from_raw_mode(facts.stx_mode.into()),
        made: (made.tv_sec.cast_unsigned(), made.tv_nsec.into()),
        names: facts.stx_nlink.into(),
    })
}

/// The same; what was last changed is told here by its time alone.
#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_cast, reason = "the numbers are of other sizes on other systems")]
pub(crate) fn facts_at(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Facts> {
    let facts = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Facts {
        file: number(&facts),
        kind: FileType::from_raw_mode(facts.st_mode),
        made: (facts.st_ctime as u64, facts.st_ctime_nsec as u64),
        names: facts.st_nlink as u64,
    })
}

/// Which file is open here.
pub(crate) fn of_open(file: impl AsFd) -> io::Result<Number> {
    Ok(number(&fstat(file)?))
}

#[allow(clippy::unnecessary_cast, reason = "the numbers are of other sizes on other systems")]
pub(crate) fn number(facts: &Stat) -> Number {
    (facts.st_dev as u64, facts.st_ino as u64)
}
