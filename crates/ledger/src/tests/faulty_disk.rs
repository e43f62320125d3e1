//! Disk implementation that fails on demand.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
};

use crate::{
    Ledger, LedgerOptions, LedgerRecovery,
    disk::{LedgerDisk, SystemDisk},
};

/// Fault of one write.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriteFault {
    /// Only the first bytes are written.
    Short(usize),
    /// The write fails with this error number.
    Fails(i32),
}

pub(super) const EINTR: i32 = 4;
pub(super) const EIO: i32 = 5;
pub(super) const ENOSPC: i32 = 28;
pub(super) const EAGAIN: i32 = if cfg!(target_os = "macos") { 35 } else { 11 };

#[derive(Debug, Default)]
pub(super) struct FaultyDisk {
    pub(super) writes: Mutex<VecDeque<WriteFault>>,
    /// Number of syncs, creations and truncations that still fail.
    pub(super) failing_syncs: AtomicU32,
    pub(super) failing_creations: AtomicU32,
    pub(super) failing_cuts: AtomicU32,
    /// Number of the operation, counted from 1, that fails regardless of its kind.
    pub(super) fail_at: AtomicU32,
    pub(super) error: AtomicI32,
    /// While set, syncs block.
    held: Mutex<bool>,
    released: Condvar,
}

impl FaultyDisk {
    /// Opens a ledger on this disk.
    pub(super) fn open(
        self: &Arc<FaultyDisk>,
        folder: &Path,
        options: &LedgerOptions,
    ) -> (Arc<Ledger>, LedgerRecovery) {
        Ledger::open_with_disk(Arc::clone(self) as Arc<dyn LedgerDisk>, folder, options).unwrap()
    }

    pub(super) fn hold_syncs(&self) {
        *self.held.lock().unwrap() = true;
    }

    pub(super) fn release_syncs(&self) {
        *self.held.lock().unwrap() = false;
        self.released.notify_all();
    }
}

impl FaultyDisk {
    fn count(&self) -> io::Result<()> {
        let left = |left: u32| left.checked_sub(1);
        match self.fail_at.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left) {
            Ok(1) => Err(io::Error::from_raw_os_error(self.error.load(Ordering::SeqCst))),
            _ => Ok(()),
        }
    }
}

fn fails(counter: &AtomicU32) -> io::Result<()> {
    let spent = counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err();
    if spent { Ok(()) } else { Err(io::Error::from_raw_os_error(EIO)) }
}

impl LedgerDisk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.count()?;
        fails(&self.failing_creations)?;
        SystemDisk.create(path)
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        self.count()?;
        match self.writes.lock().unwrap().pop_front() {
            None => SystemDisk.write(file, bytes),
            Some(WriteFault::Short(count)) => SystemDisk.write(file, &bytes[..count.min(bytes.len())]),
            Some(WriteFault::Fails(number)) => Err(io::Error::from_raw_os_error(number)),
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        drop(self.released.wait_while(self.held.lock().unwrap(), |held| *held).unwrap());
        self.count()?;
        fails(&self.failing_syncs)?;
        SystemDisk.sync(file)
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        self.count()?;
        fails(&self.failing_cuts)?;
        SystemDisk.truncate(file, length)
    }

    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        self.count()?;
        SystemDisk.sync_folder(folder)
    }
}
