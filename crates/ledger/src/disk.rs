//! Disk operations of the writer, as a trait: tests replace the real implementation with one that fails on
//! demand.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    path::Path,
};

use crate::private_file;

/// Operations that can fail while a record is made durable.
pub(crate) trait LedgerDisk: Send + Sync + fmt::Debug {
    /// Creates a file for appending that must not exist yet.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// Appends with one `write(2)`; it may write fewer bytes than requested.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;
    /// Makes written data durable. On Apple systems this uses `F_FULLFSYNC`, which flushes the drive's cache.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Truncates the file to `length`.
    fn truncate(&self, file: &File, length: u64) -> io::Result<()>;
    /// Makes created and removed file names durable.
    fn sync_folder(&self, folder: &File) -> io::Result<()>;
}

/// Implementation by the operating system.
#[derive(Debug)]
pub(crate) struct SystemDisk;

impl LedgerDisk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        private_file::create(path)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }
}

/// Number of retries of a write that would block.
const MAX_WOULD_BLOCK_RETRIES: u32 = 1000;

/// Appends all bytes, continuing after partial writes.
pub(crate) fn write_all(disk: &dyn LedgerDisk, file: &File, mut bytes: &[u8]) -> io::Result<()> {
    let mut refused = 0;
    while !bytes.is_empty() {
        match disk.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && refused < MAX_WOULD_BLOCK_RETRIES => {
                refused += 1;
                std::thread::yield_now();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true if the error ends once disk space is freed.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
