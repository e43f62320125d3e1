//! State shared by the threads of callers and the commit thread.

use std::{
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{oneshot, watch};

use crate::{
    LedgerError,
    entry::LedgerEntry,
    health::{LedgerState, SizeLimitPressure},
    key::LedgerKey,
    line::EntryBody,
    writer::{HaltKind, LedgerWriter, WritePurpose},
};

/// Maximum time that records may stay unsynced in the kernel.
pub(crate) const MAX_UNSYNCED_TIME: Duration = Duration::from_secs(1);
/// Interval of attempts to resume a halted ledger.
pub(crate) const RESUME_INTERVAL: Duration = Duration::from_millis(500);

/// Caller that waits until a record is durable.
pub(crate) struct DurabilityWaiter {
    pub(crate) seq: u64,
    pub(crate) result_sender: oneshot::Sender<Result<(), Arc<str>>>,
}

/// Work for the commit thread.
#[derive(Default)]
pub(crate) struct CommitQueue {
    pub(crate) waiters: Vec<DurabilityWaiter>,
    /// Time of the next pass without a request.
    pub(crate) next_pass: Option<Instant>,
    /// A caller requests an attempt to resume.
    pub(crate) resume_requested: bool,
    pub(crate) stop: bool,
}

impl CommitQueue {
    pub(crate) fn schedule_pass_within(&mut self, time: Duration) {
        let at = Instant::now() + time;
        self.next_pass = Some(self.next_pass.map_or(at, |earlier| earlier.min(at)));
    }
}

/// State of a ledger that is open for writing.
pub(crate) struct LedgerShared {
    pub(crate) folder: PathBuf,
    pub(crate) key: LedgerKey,
    pub(crate) writer: Mutex<LedgerWriter>,
    pub(crate) queue: Mutex<CommitQueue>,
    pub(crate) work_available: Condvar,
    pub(crate) state: watch::Sender<LedgerState>,
    /// Number of attempts to resume, so that callers can wait for the next one.
    pub(crate) resume_attempts: watch::Sender<u64>,
    /// There are records that are not durable yet and have no waiter.
    pub(crate) unsynced: AtomicBool,
    pub(crate) syncs: AtomicU64,
    pub(crate) indexed: AtomicU64,
    /// A query would be faster with a complete index.
    pub(crate) index_wanted: AtomicBool,
    /// Bytes of all segments except the open one, as of the last scan of the folder.
    pub(crate) older_bytes: AtomicU64,
    pub(crate) pressure: watch::Sender<SizeLimitPressure>,
    /// Stops background work that the segments do not depend on.
    pub(crate) closing: AtomicBool,
}

/// Locks a mutex and ignores poisoning, so that a panic elsewhere does not disable the ledger. This is safe
/// because every change to locked data is complete before the next call that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LedgerShared {
    /// Writes an entry to the kernel.
    pub(crate) fn write(&self, entry: &LedgerEntry, purpose: WritePurpose) -> Result<u64, LedgerError> {
        let body = EntryBody::new(entry, &self.key)?;
        let mut writer = lock(&self.writer);
        let written = writer.append(entry, body, purpose);
        self.after_write(&writer);
        written
    }

    /// Writes an entry and queues a waiter for its durability. Both happen under one lock, so that no failure
    /// in between can miss the waiter.
    pub(crate) fn write_and_queue(
        &self,
        entry: &LedgerEntry,
        purpose: WritePurpose,
    ) -> Result<DurabilityTicket, LedgerError> {
        let body = EntryBody::new(entry, &self.key)?;
        let (result_sender, result) = oneshot::channel();
        let mut writer = lock(&self.writer);
        let seq = writer.append(entry, body, purpose);
        self.after_write(&writer);
        let seq = seq?;
        lock(&self.queue).waiters.push(DurabilityWaiter { seq, result_sender });
        drop(writer);
        self.work_available.notify_one();
        Ok(DurabilityTicket { seq, result })
    }

    pub(crate) fn after_write(&self, writer: &LedgerWriter) {
        if writer.halt.is_some() {
            self.publish_state(writer);
            lock(&self.queue).schedule_pass_within(RESUME_INTERVAL);
            self.work_available.notify_one();
        } else if !self.unsynced.swap(true, Ordering::AcqRel) {
            lock(&self.queue).schedule_pass_within(MAX_UNSYNCED_TIME);
            self.work_available.notify_one();
        }
    }

    /// Notifies subscribers when the size limit starts or stops having an effect.
    pub(crate) fn report_pressure(&self, pressure: SizeLimitPressure) {
        self.pressure.send_if_modified(|last| {
            let changed = *last != pressure;
            *last = pressure;
            changed
        });
    }

    /// Notifies subscribers of the state.
    pub(crate) fn publish_state(&self, writer: &LedgerWriter) {
        let state = match &writer.halt {
            None => LedgerState::Ready,
            Some(halt) if halt.kind == HaltKind::Closed => LedgerState::Closed,
            Some(halt) => LedgerState::Unavailable { reason: Arc::clone(&halt.reason) },
        };
        self.state.send_if_modified(|current| {
            let changed = *current != state;
            *current = state;
            changed
        });
    }

    /// Waits for one attempt to resume after a failure.
    pub(crate) async fn wait_for_resume_attempt(&self) {
        let mut tries = self.resume_attempts.subscribe();
        {
            let mut queue = lock(&self.queue);
            if queue.stop {
                return;
            }
            queue.resume_requested = true;
        }
        self.work_available.notify_one();
        // An error means that the ledger was dropped; the next write reports that.
        let _ = tries.changed().await;
    }
}

/// Record that is written and waits to become durable.
pub(crate) struct DurabilityTicket {
    pub(crate) seq: u64,
    result: oneshot::Receiver<Result<(), Arc<str>>>,
}

impl DurabilityTicket {
    /// Waits until the record is durable.
    pub(crate) async fn wait_durable(self) -> Result<u64, LedgerError> {
        match self.result.await {
            Ok(Ok(())) => Ok(self.seq),
            Ok(Err(reason)) => Err(LedgerError::Unavailable { reason }),
            Err(_) => Err(LedgerError::Closed),
        }
    }
}
