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
    entry::Entry,
    health::{Pressure, State},
    key::Key,
    line::Body,
    writer::{HaltKind, Purpose, Writer},
};

/// Maximum time that records may stay unsynced in the kernel.
pub(crate) const SYNC_WITHIN: Duration = Duration::from_secs(1);
/// Interval of attempts to resume a halted ledger.
pub(crate) const RETRY_EVERY: Duration = Duration::from_millis(500);

/// Caller that waits until a record is durable.
pub(crate) struct Waiter {
    pub(crate) seq: u64,
    pub(crate) told: oneshot::Sender<Result<(), Arc<str>>>,
}

/// Work for the commit thread.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) waiters: Vec<Waiter>,
    /// Time of the next pass without a request.
    pub(crate) look_at: Option<Instant>,
    /// A caller requests an attempt to resume.
    pub(crate) nudged: bool,
    pub(crate) stop: bool,
}

impl Queue {
    pub(crate) fn look_within(&mut self, time: Duration) {
        let at = Instant::now() + time;
        self.look_at = Some(self.look_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// State of a ledger that is open for writing.
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) key: Key,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) bell: Condvar,
    pub(crate) state: watch::Sender<State>,
    /// Number of attempts to resume, so that callers can wait for the next one.
    pub(crate) tries: watch::Sender<u64>,
    /// There are records that are not durable yet and have no waiter.
    pub(crate) unsynced: AtomicBool,
    pub(crate) syncs: AtomicU64,
    pub(crate) indexed: AtomicU64,
    /// Bytes of all segments except the open one, as of the last scan of the folder.
    pub(crate) older_bytes: AtomicU64,
    pub(crate) pressure: watch::Sender<Pressure>,
    /// Stops background work that the segments do not depend on.
    pub(crate) closing: AtomicBool,
}

/// Locks a mutex and ignores poisoning, so that a panic elsewhere does not disable the ledger. This is safe
/// because every change to locked data is complete before the next call that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Writes an entry to the kernel.
    pub(crate) fn write(&self, entry: &Entry, purpose: Purpose) -> Result<u64, LedgerError> {
        let body = Body::new(entry, &self.key)?;
        let mut writer = lock(&self.writer);
        let written = writer.append(entry, body, purpose);
        self.after_write(&writer);
        written
    }

    /// Writes an entry and queues a waiter for its durability. Both happen under one lock, so that no failure
    /// in between can miss the waiter.
    pub(crate) fn write_and_queue(&self, entry: &Entry, purpose: Purpose) -> Result<Ticket, LedgerError> {
        let body = Body::new(entry, &self.key)?;
        let (told, answer) = oneshot::channel();
        let mut writer = lock(&self.writer);
        let seq = writer.append(entry, body, purpose);
        self.after_write(&writer);
        let seq = seq?;
        lock(&self.queue).waiters.push(Waiter { seq, told });
        drop(writer);
        self.bell.notify_one();
        Ok(Ticket { seq, answer })
    }

    pub(crate) fn after_write(&self, writer: &Writer) {
        if writer.halt.is_some() {
            self.publish(writer);
            lock(&self.queue).look_within(RETRY_EVERY);
            self.bell.notify_one();
        } else if !self.unsynced.swap(true, Ordering::AcqRel) {
            lock(&self.queue).look_within(SYNC_WITHIN);
            self.bell.notify_one();
        }
    }

    /// Notifies subscribers when the size limit starts or stops having an effect.
    pub(crate) fn report_pressure(&self, pressure: Pressure) {
        self.pressure.send_if_modified(|last| {
            let changed = *last != pressure;
            *last = pressure;
            changed
        });
    }

    /// Notifies subscribers of the state.
    pub(crate) fn publish(&self, writer: &Writer) {
        let state = match &writer.halt {
            None => State::Ready,
            Some(halt) if halt.kind == HaltKind::Closed => State::Closed,
            Some(halt) => State::Unavailable { reason: Arc::clone(&halt.reason) },
        };
        self.state.send_if_modified(|current| {
            let changed = *current != state;
            *current = state;
            changed
        });
    }

    /// Waits for one attempt to resume after a failure.
    pub(crate) async fn one_try(&self) {
        let mut tries = self.tries.subscribe();
        {
            let mut queue = lock(&self.queue);
            if queue.stop {
                return;
            }
            queue.nudged = true;
        }
        self.bell.notify_one();
        // An error means that the ledger was dropped; the next write reports that.
        let _ = tries.changed().await;
    }
}

/// Record that is written and waits to become durable.
pub(crate) struct Ticket {
    pub(crate) seq: u64,
    answer: oneshot::Receiver<Result<(), Arc<str>>>,
}

impl Ticket {
    /// Waits until the record is durable.
    pub(crate) async fn durable(self) -> Result<u64, LedgerError> {
        match self.answer.await {
            Ok(Ok(())) => Ok(self.seq),
            Ok(Err(reason)) => Err(LedgerError::Unavailable { reason }),
            Err(_) => Err(LedgerError::Closed),
        }
    }
}
