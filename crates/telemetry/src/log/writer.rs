//! One thread that writes lines, and a bounded queue before it: a full or hanging disk, or a terminal nobody
//! reads, costs lines, never time. What is lost is counted, and said in the log as soon as it takes lines again.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::TelemetryError;

const QUEUE_LINES: usize = 8192;
const QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// After a line the thread gathers what follows for so long: waking it for each would cost the caller more than
/// the line itself.
const GATHER: Duration = Duration::from_millis(20);

/// Takes one whole line, newline included, in one `write(2)`.
pub(crate) trait LineSink: Send + 'static {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()>;

    /// The line that says how many were lost before it.
    fn loss_notice(&self, lost: u64) -> Vec<u8>;
}

/// The sending side; clones write to the same place.
#[derive(Clone)]
pub(crate) struct LineWriter {
    shared: Arc<Shared>,
    _senders: Arc<Senders>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Rung for the thread: there is something to do.
    work: Condvar,
    /// Rung for who flushes: lines were written or given up.
    moved: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    accepted: u64,
    finished: u64,
    /// How many wait in `flush`: there is no gathering while somebody waits.
    flushing: usize,
    idle: bool,
    closed: bool,
}

/// Rings the thread out when the last sender is gone.
struct Senders(Arc<Shared>);

impl Drop for Senders {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next line, as soon as there is one; none when nothing will come any more.
    fn next(&self) -> Option<Vec<u8>> {
        let mut queue = self.lock();
        if queue.lines.is_empty() && queue.flushing == 0 && !queue.closed {
            let gathering = self.work.wait_timeout(queue, GATHER);
            queue = gathering.unwrap_or_else(PoisonError::into_inner).0;
        }
        loop {
            if let Some(line) = queue.lines.pop_front() {
                return Some(line);
            }
            if queue.closed {
                return None;
            }
            queue.idle = true;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle = false;
        }
    }

    /// A line of so many bytes was written, or given up.
    fn finish(&self, bytes: usize) {
        let mut queue = self.lock();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        queue.finished += 1;
        if queue.flushing > 0 {
            self.moved.notify_all();
        }
    }
}

impl LineWriter {
    pub(crate) fn start(name: &'static str, sink: impl LineSink) -> Result<Self, TelemetryError> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || drain(&theirs, sink))
            .map_err(|cause| TelemetryError::Thread { name, cause })?;
        Ok(LineWriter { _senders: Arc::new(Senders(Arc::clone(&shared))), shared })
    }

    /// Hands a line over. Never waits: a line for which there is no room is dropped and counted.
    pub(crate) fn write(&self, line: Vec<u8>) {
        let mut queue = self.shared.lock();
        let bytes = queue.bytes.saturating_add(line.len());
        if queue.lines.len() >= QUEUE_LINES || bytes > QUEUE_BYTES {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes = bytes;
        queue.accepted += 1;
        queue.lines.push_back(line);
        let asleep = std::mem::take(&mut queue.idle);
        drop(queue);
        if asleep {
            self.shared.work.notify_one();
        }
    }

    /// How many lines were lost since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was handed over before has been written or given up. False when the time ran out first.
    pub(crate) fn flush(&self, deadline: Instant) -> bool {
        let mut queue = self.shared.lock();
        let target = queue.accepted;
        queue.flushing += 1;
        self.shared.work.notify_one();
        while queue.finished < target {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            let woken = self.shared.moved.wait_timeout(queue, left);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.flushing -= 1;
        queue.finished >= target
    }
}

fn drain(shared: &Shared, mut sink: impl LineSink) {
    let mut reported = 0;
    while let Some(line) = shared.next() {
        let lost = shared.dropped.load(Ordering::Relaxed).saturating_sub(reported);
        if lost > 0 && sink.write_line(&sink.loss_notice(lost)).is_ok() {
            reported += lost;
        }
        if sink.write_line(&line).is_err() {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        shared.finish(line.len());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Takes a line only when it is let.
    struct Gate {
        open: Receiver<io::Result<()>>,
        taken: Taken,
    }

    impl LineSink for Gate {
        fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
            self.open.recv().unwrap_or(Ok(()))?;
            self.taken.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap());
            Ok(())
        }

        fn loss_notice(&self, lost: u64) -> Vec<u8> {
            format!("lost {lost}").into_bytes()
        }
    }

    type Taken = Arc<Mutex<Vec<String>>>;

    fn gated() -> (SyncSender<io::Result<()>>, Taken, LineWriter) {
        let (let_in, open) = sync_channel(100_000);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let writer = LineWriter::start("test", Gate { open, taken: Arc::clone(&taken) }).unwrap();
        (let_in, taken, writer)
    }

    #[test]
    fn a_place_that_hangs_costs_lines_not_time() {
        let (let_in, taken, writer) = gated();
        let begun = Instant::now();
        for _ in 0..QUEUE_LINES * 2 {
            writer.write(b"x".to_vec());
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
        // One line is in the hands of the thread, or still in the queue.
        let lost = writer.dropped();
        assert!((QUEUE_LINES as u64 - 1..=QUEUE_LINES as u64).contains(&lost), "{lost}");
        assert!(!writer.flush(Instant::now() + Duration::from_millis(10)), "the deadline holds");
        drop(let_in);
        assert!(writer.flush(Instant::now() + Duration::from_secs(10)));
        let taken = taken.lock().unwrap();
        let said = taken.iter().filter_map(|line| line.strip_prefix("lost ")?.parse::<u64>().ok());
        assert_eq!(said.sum::<u64>(), lost, "the loss is said");
        assert_eq!(taken.iter().filter(|line| *line == "x").count() as u64, QUEUE_LINES as u64 * 2 - lost);
    }

    #[test]
    fn large_lines_are_bounded_by_their_bytes() {
        let (let_in, _, writer) = gated();
        for _ in 0..20 {
            writer.write(vec![b'x'; QUEUE_BYTES / 10]);
        }
        assert_eq!(writer.dropped(), 10);
        drop(let_in);
        assert!(writer.flush(Instant::now() + Duration::from_secs(10)));
        writer.write(b"small".to_vec());
        assert_eq!(writer.dropped(), 10, "there is room again");
    }

    #[test]
    fn a_line_that_fails_is_counted_and_the_next_is_written() {
        let (let_in, taken, writer) = gated();
        for result in [Err(io::ErrorKind::StorageFull.into()), Ok(()), Ok(())] {
            let_in.send(result).unwrap();
        }
        writer.write(b"first".to_vec());
        writer.write(b"second".to_vec());
        assert!(writer.flush(Instant::now() + Duration::from_secs(10)));
        assert_eq!(writer.dropped(), 1);
        assert_eq!(*taken.lock().unwrap(), ["lost 1", "second"]);
    }
}
