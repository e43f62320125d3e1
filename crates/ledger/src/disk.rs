//! The few things the writer asks of the disk, as a seam: the real one, and in tests one that fails on demand.

use std::{fmt, fs::File, io, os::unix::fs::FileExt, path::Path};

use crate::{private_file, room};

/// What can fail when a record is made to last.
pub(crate) trait Disk: Send + Sync + fmt::Debug {
    /// Creates a file that must not exist.
    fn create(&self, path: &Path) -> io::Result<File>;
    /// One `pwrite(2)` at this place; may write less than asked.
    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Makes the file longer, up to there, with room for what is to come.
    fn make_room(&self, file: &File, from: u64, to: u64) -> io::Result<()>;
    /// Makes what was written durable. On Apple systems this reaches the platter (`F_FULLFSYNC`).
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Takes off what is behind `length`.
    fn cut(&self, file: &File, length: u64) -> io::Result<()>;
    /// Makes created and removed names durable.
    fn sync_folder(&self, folder: &File) -> io::Result<()>;
}

/// The operating system.
#[derive(Debug)]
pub(crate) struct Real;

impl Disk for Real {
    fn create(&self, path: &Path) -> io::Result<File> {
        private_file::create(path)
    }

    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        file.write_at(bytes, at)
    }

    fn make_room(&self, file: &File, from: u64, to: u64) -> io::Result<()> {
        room::fill(file, from, to)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn cut(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }
}

/// How often a write that would block is tried again before it counts as failed.
const PATIENCE: u32 = 1000;

/// Writes all of it from a place on, whatever pieces the system takes it in.
pub(crate) fn write_all(disk: &dyn Disk, file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    let mut refused = 0;
    while !bytes.is_empty() {
        match disk.write(file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = bytes.get(count..).unwrap_or_default();
                at += u64::try_from(count).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && refused < PATIENCE => {
                refused += 1;
                std::thread::yield_now();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether an error passes when somebody makes room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
