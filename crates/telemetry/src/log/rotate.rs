//! Rotating log file: whole lines are appended, only the owner can read it, and it is renamed when it is
//! full.
//!
//! `sinew.log` is the newest file, `sinew.log.1` the one before it. If the file is removed or replaced, the
//! writer notices within a second and opens a new one. It never writes to a symbolic link or a device in its
//! place.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tool::escaped_json;

use super::record::LogEntry;
use super::writer::LineSink;
use crate::TelemetryError;

/// Interval at which the path is compared with the open file, and a failed open is retried.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of one write in bytes.
const MAX_WRITE_BYTES: usize = 64 * 1024;

/// Limits of the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RotationLimits {
    /// Size in bytes at which a file is rotated.
    pub(crate) max_bytes: u64,
    /// Number of files to keep, including the open one.
    pub(crate) files: u32,
}

/// Open log file and its rotated predecessors.
#[derive(Debug)]
pub(crate) struct RotatingFile {
    directory: PathBuf,
    limits: RotationLimits,
    open: Option<OpenLogFile>,
    checked: Instant,
}

#[derive(Debug)]
struct OpenLogFile {
    file: File,
    size: u64,
    identity: (u64, u64),
    /// True if the file ends in a partial line that could not be removed.
    has_partial_line: bool,
}

/// Returns the path of the log file that has `newer` newer files.
pub(crate) fn path(directory: &Path, newer: u32) -> PathBuf {
    match newer {
        0 => directory.join("sinew.log"),
        _ => directory.join(format!("sinew.log.{newer}")),
    }
}

impl RotatingFile {
    /// Creates the directory if needed and opens the file, so that a log that cannot be written fails at
    /// startup.
    pub(crate) fn open(directory: &Path, limits: RotationLimits) -> Result<Self, TelemetryError> {
        let failed = |cause| TelemetryError::LogDirectory { path: directory.to_owned(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let open = Some(OpenLogFile::open(&path(directory, 0)).map_err(failed)?);
        Ok(RotatingFile { directory: directory.to_owned(), limits, open, checked: Instant::now() })
    }

    fn file_with_space(&mut self, space: u64) -> io::Result<&mut OpenLogFile> {
        let newest = path(&self.directory, 0);
        if self.checked.elapsed() >= RECHECK_INTERVAL {
            self.checked = Instant::now();
            if self.open.as_ref().is_none_or(|open| !open.is_at(&newest)) {
                self.open = None;
                self.open = Some(OpenLogFile::open(&newest)?);
            }
        }
        let full =
            self.open.as_ref().is_some_and(|open| open.size > 0 && open.size + space > self.limits.max_bytes);
        if full {
            self.open = None;
            self.rotate()?;
            self.open = Some(OpenLogFile::open(&newest)?);
        }
        self.open.as_mut().ok_or_else(|| io::Error::other("the log file is not open"))
    }

    /// Renames every file to the next older name and removes the oldest.
    fn rotate(&self) -> io::Result<()> {
        let oldest = self.limits.files.saturating_sub(1);
        let ignore_missing = |result: io::Result<()>| match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        ignore_missing(std::fs::remove_file(path(&self.directory, oldest)))?;
        for newer in (0..oldest).rev() {
            let (from, to) = (path(&self.directory, newer), path(&self.directory, newer + 1));
            ignore_missing(std::fs::rename(from, to))?;
        }
        Ok(())
    }
}

impl LineSink for RotatingFile {
    fn format_line(&self, record: &LogEntry) -> Vec<u8> {
        json_line(record)
    }

    /// A small fraction of the file size, which bounds the unused rest of a full file.
    fn max_write_bytes(&self) -> usize {
        usize::try_from(self.limits.max_bytes / 64).unwrap_or(usize::MAX).min(MAX_WRITE_BYTES)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file_with_space(lines.len() as u64)?.append(lines)
    }

    fn loss_notice(&self, lost: u64) -> Vec<u8> {
        json_line(&serde_json::json!({
            "time": format!("{:.3}", jiff::Timestamp::now()), "level": "WARN", "event": "log_lines_dropped",
            "target": "sinew::log", "count": lost,
        }))
    }
}

/// Formats a value as one line that is safe to display, newline included.
fn json_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::with_capacity(512);
    // This cannot fail: it writes to memory, and all keys are strings.
    let _ = escaped_json::append(&mut line, value);
    line.push(b'\n');
    line
}

impl OpenLogFile {
    fn open(path: &Path) -> io::Result<Self> {
        // Does not follow a symbolic link, and does not block on a FIFO without a reader.
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other(format!("`{}` is not a regular file", path.display())));
        }
        if found.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(OpenLogFile {
            file,
            size: found.size(),
            identity: (found.dev(), found.ino()),
            has_partial_line: false,
        })
    }

    fn is_at(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    /// Appends the lines in one write. If the disk accepted only a part of them, the part is removed again.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.has_partial_line {
            self.file.write_all(b"\n")?;
            self.size += 1;
            self.has_partial_line = false;
        }
        let mut written = 0;
        while let Some(rest) = lines.get(written..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return Err(self.remove_partial_write(written, io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.remove_partial_write(written, error)),
            }
        }
        self.size += written as u64;
        Ok(())
    }

    fn remove_partial_write(&mut self, written: usize, error: io::Error) -> io::Error {
        if written > 0 && self.file.set_len(self.size).is_err() {
            self.size += written as u64;
            self.has_partial_line = true;
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMITS: RotationLimits = RotationLimits { max_bytes: 100, files: 2 };

    /// Pretends that the last check of the path was long ago.
    fn expire_check(file: &mut RotatingFile) {
        file.checked = Instant::now().checked_sub(RECHECK_INTERVAL * 2).unwrap();
    }

    #[test]
    fn removed_file_is_created_again() {
        let home = tempfile::tempdir().unwrap();
        let mut file = RotatingFile::open(home.path(), LIMITS).unwrap();
        file.write(b"one\n").unwrap();
        fs::remove_file(path(home.path(), 0)).unwrap();
        expire_check(&mut file);
        file.write(b"two\n").unwrap();
        assert_eq!(fs::read(path(home.path(), 0)).unwrap(), b"two\n");
    }

    #[test]
    fn symlink_in_place_of_the_log_is_not_written_to() {
        let home = tempfile::tempdir().unwrap();
        let (name, victim) = (path(home.path(), 0), home.path().join("victim"));
        fs::write(&victim, "").unwrap();
        let mut file = RotatingFile::open(home.path(), LIMITS).unwrap();
        fs::remove_file(&name).unwrap();
        std::os::unix::fs::symlink(&victim, &name).unwrap();
        expire_check(&mut file);
        assert!(file.write(b"one\n").is_err());
        assert!(file.write(b"two\n").is_err(), "still refused until the next check");
        assert_eq!(fs::read(&victim).unwrap(), b"");
        fs::remove_file(&name).unwrap();
        expire_check(&mut file);
        file.write(b"three\n").unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"three\n");
    }

    #[test]
    fn readable_log_file_is_made_private() {
        let home = tempfile::tempdir().unwrap();
        let name = path(home.path(), 0);
        fs::write(&name, "old\n").unwrap();
        fs::set_permissions(&name, Permissions::from_mode(0o644)).unwrap();
        let mut file = RotatingFile::open(home.path(), LIMITS).unwrap();
        file.write(b"new\n").unwrap();
        assert_eq!(fs::metadata(&name).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(&name).unwrap(), b"old\nnew\n");
    }

    #[test]
    fn line_longer_than_a_file_is_still_written() {
        let home = tempfile::tempdir().unwrap();
        let mut file = RotatingFile::open(home.path(), LIMITS).unwrap();
        for line in [[b'a'; 300], [b'b'; 300], [b'c'; 300]] {
            file.write(&line).unwrap();
        }
        assert_eq!(fs::read(path(home.path(), 0)).unwrap(), [b'c'; 300]);
        assert_eq!(fs::read(path(home.path(), 1)).unwrap(), [b'b'; 300]);
        assert!(!path(home.path(), 2).exists());
    }

    #[test]
    fn single_file_is_replaced_on_rotation() {
        let home = tempfile::tempdir().unwrap();
        let mut file = RotatingFile::open(home.path(), RotationLimits { max_bytes: 10, files: 1 }).unwrap();
        file.write(b"first line\n").unwrap();
        file.write(b"second\n").unwrap();
        assert_eq!(fs::read(path(home.path(), 0)).unwrap(), b"second\n");
        assert!(!path(home.path(), 1).exists());
    }
}
