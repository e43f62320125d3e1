//! What the callers' threads and the committing thread share.

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
    health::State,
    key::Key,
    line::Body,
    segment::{self, Segment},
    writer::{HaltKind, Purpose, Writer},
};

/// How long records may stay in the kernel only.
pub(crate) const SYNC_WITHIN: Duration = Duration::from_secs(1);
/// How often a halted ledger tries to go on by itself.
pub(crate) const RETRY_EVERY: Duration = Duration::from_millis(500);

/// Somebody who waits until a record is durable.
pub(crate) struct Waiter {
    pub(crate) seq: u64,
    pub(crate) told: oneshot::Sender<Result<(), Arc<str>>>,
}

/// Work for the committing thread.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) waiters: Vec<Waiter>,
    /// When to look again without being asked.
    pub(crate) look_at: Option<Instant>,
    /// Somebody asks for a try to go on.
    pub(crate) nudged: bool,
    pub(crate) stop: bool,
}

impl Queue {
    pub(crate) fn look_within(&mut self, time: Duration) {
        let at = Instant::now() + time;
        self.look_at = Some(self.look_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// One ledger that is being written.
pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) key: Key,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) bell: Condvar,
    pub(crate) state: watch::Sender<State>,
    /// Counts tries to go on, so that callers can wait for one.
    pub(crate) tries: watch::Sender<u64>,
    /// Whether there are records that nobody waits for and that are not durable yet.
    pub(crate) unsynced: AtomicBool,
    pub(crate) syncs: AtomicU64,
    pub(crate) indexed: AtomicU64,
    /// Background work that is not needed for the record stops.
    pub(crate) closing: AtomicBool,
}

/// A panic elsewhere must not take the record down: every change to what is locked is finished before the next
/// call that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Writes an entry into the kernel.
    pub(crate) fn write(&self, entry: &Entry, purpose: Purpose) -> Result<u64, LedgerError> {
        let body = Body::new(entry, &self.key)?;
        let mut writer = lock(&self.writer);
        let written = writer.append(entry, body, purpose);
        self.after_write(&writer);
        written
    }

    /// Writes an entry and queues for its being made durable. Both under one lock, so that no failure in between
    /// can pass the waiter by.
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

    /// The segments in order, and of the open one no more than was written to it.
    pub(crate) fn segments(&self) -> Result<Vec<Segment>, LedgerError> {
        let mut segments = segment::list(&self.folder)?;
        // After the look at the folder: whatever was there and is not open now will not change any more.
        let writer = lock(&self.writer);
        let open = segments.iter_mut().find(|segment| segment.first == writer.active.segment.first);
        if let Some(open) = open {
            open.written = Some(writer.active.length);
        }
        Ok(segments)
    }

    /// Tells whoever watches the state.
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

    /// Waits for one try to go on after a failure.
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
        // An error means that the ledger is gone; the next write says so.
        let _ = tries.changed().await;
    }
}

/// A record that is written and will be durable.
pub(crate) struct Ticket {
    pub(crate) seq: u64,
    answer: oneshot::Receiver<Result<(), Arc<str>>>,
}

impl Ticket {
    /// Waits until it is.
    pub(crate) async fn durable(self) -> Result<u64, LedgerError> {
        match self.answer.await {
            Ok(Ok(())) => Ok(self.seq),
            Ok(Err(reason)) => Err(LedgerError::Unavailable { reason }),
            Err(_) => Err(LedgerError::Closed),
        }
    }
}
