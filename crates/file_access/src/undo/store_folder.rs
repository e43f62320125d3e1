//! Private folder of the undo store, with a record and, if there is one, a saved object per change.
//!
//! `KEY.pending` is the record of a change that may be in progress, `KEY.json` that of a completed one,
//! `KEY.before` the saved object.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::record::UndoRecord;
use crate::platform;
use crate::tree;

/// Maximum size of a record, which holds two names and a digest.
const MAX_RECORD_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) struct StoreFolder {
    pub(crate) handle: OwnedFd,
}

impl StoreFolder {
    /// Opens the folder and creates it if it is missing. Fails if other users can read it or write to it.
    pub(crate) fn open(path: &Path) -> io::Result<StoreFolder> {
        match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&handle)?;
        let is_private = Mode::from_raw_mode(stat.st_mode) & (Mode::RWXG | Mode::RWXO) == Mode::empty();
        if stat.st_uid != rustix::process::geteuid().as_raw() || !is_private {
            let message = format!("`{}` is accessible to other users: run `chmod 700` on it", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(StoreFolder { handle })
    }

    /// Writes the record of a change before the change begins.
    pub(crate) fn write_pending(&self, record: &UndoRecord) -> io::Result<()> {
        let name = format!("{}.pending", record.key());
        let text = serde_json::to_vec(record)?;
        let written = self.create(&name).and_then(|mut file| {
            file.write_all(&text)?;
            platform::sync_file(&file)?;
            self.sync()
        });
        if written.is_err() {
            self.delete(&record.key());
        }
        written
    }

    /// Marks a change as completed. Not synced: after a power cut, recovery determines the outcome again.
    pub(crate) fn mark_done(&self, key: &str) -> io::Result<()> {
        let (pending, done) = (format!("{key}.pending"), format!("{key}.json"));
        Ok(rustix::fs::renameat(&self.handle, pending, &self.handle, done)?)
    }

    /// Marks a completed change as pending again.
    pub(crate) fn mark_pending(&self, key: &str) -> io::Result<()> {
        let (pending, done) = (format!("{key}.pending"), format!("{key}.json"));
        rustix::fs::renameat(&self.handle, done, &self.handle, pending)?;
        self.sync()
    }

    /// Removes the record of a change that has not begun.
    pub(crate) fn remove_pending(&self, key: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, format!("{key}.pending"), AtFlags::empty())?)
    }

    /// Removes the saved object and the record of a change.
    pub(crate) fn delete(&self, key: &str) {
        // The record goes last: without it the saved object would never be removed.
        let _ = tree::remove_tree(&self.handle, OsStr::new(&saved_object_name(key)));
        for ending in ["pending", "json"] {
            let _ = rustix::fs::unlinkat(&self.handle, format!("{key}.{ending}"), AtFlags::empty());
        }
    }

    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        tree::create_file(&self.handle, name, Mode::RUSR | Mode::WUSR)
    }

    pub(crate) fn read(&self, name: &str) -> io::Result<UndoRecord> {
        let mut text = Vec::new();
        tree::open_file(&self.handle, OsStr::new(name))?.take(MAX_RECORD_BYTES).read_to_end(&mut text)?;
        serde_json::from_slice(&text).map_err(|error| match error.classify() {
            // Complete, but of an unknown format: the version of Sinew that wrote it can still read it.
            serde_json::error::Category::Data => io::Error::new(
                io::ErrorKind::Unsupported,
                format!("`{name}` was written by another version of Sinew: {error}"),
            ),
            _ => error.into(),
        })
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        platform::status_at(&self.handle, OsStr::new(name)).is_ok()
    }

    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for found in rustix::fs::Dir::read_from(&self.handle)? {
            names.extend(found?.file_name().to_str().map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.handle)?)
    }
}

/// Returns the name of the saved object of a change.
pub(crate) fn saved_object_name(key: &str) -> String {
    format!("{key}.before")
}
