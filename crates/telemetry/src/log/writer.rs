//! Writer thread with a bounded queue: a full or hanging disk, or a terminal that does not read, costs lines
//! but never time. Lost lines are counted, and the log reports their number as soon as it accepts lines
//! again. The thread also redacts and formats the queued events, so that no call waits for that.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::captured_event::LazyRecord;
use super::record::LogEntry;
use crate::TelemetryError;

const QUEUE_LINES: usize = 8192;
const QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of records that the thread takes from the queue at once.
const MAX_BATCH: usize = 64;
/// Time that the thread waits for more lines after a write. Waking it for each line would cost the caller
/// more than the line itself.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// Output for whole lines, newlines included, each batch in one `write(2)`.
pub(crate) trait LineSink: Send + 'static {
    /// Formats a record as a line of this output, newline included.
    fn format_line(&self, record: &LogEntry) -> Vec<u8>;

    /// Maximum size of a batch in bytes; a single line may be longer.
    fn max_write_bytes(&self) -> usize;

    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Formats the line that reports the number of lost lines before it.
    fn loss_notice(&self, lost: u64) -> Vec<u8>;
}

/// Sending side of a writer thread; clones write to the same output.
#[derive(Clone)]
pub(crate) struct LineWriter {
    shared: Arc<WriterShared>,
    _senders: Arc<SenderGuard>,
}

#[derive(Default)]
struct WriterShared {
    queue: Mutex<WriterQueue>,
    /// Wakes the writer thread when there is work.
    work_available: Condvar,
    /// Wakes threads waiting in `flush` when lines were written or dropped.
    progress_made: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct WriterQueue {
    records: VecDeque<Arc<LazyRecord>>,
    bytes: usize,
    accepted: u64,
    finished: u64,
    /// Number of threads waiting in `flush`; while there is one, the writer does not gather lines.
    flushing: usize,
    idle: bool,
    closed: bool,
}

/// Stops the writer thread when the last sender is dropped.
struct SenderGuard(Arc<WriterShared>);

impl Drop for SenderGuard {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.work_available.notify_one();
    }
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, WriterQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next records; `None` once all senders are dropped and the queue is empty.
    fn next_batch(&self) -> Option<Vec<Arc<LazyRecord>>> {
        let mut queue = self.lock();
        if queue.records.is_empty() && queue.flushing == 0 && !queue.closed {
            let gathering = self.work_available.wait_timeout(queue, GATHER_TIME);
            queue = gathering.unwrap_or_else(PoisonError::into_inner).0;
        }
        loop {
            if !queue.records.is_empty() {
                let count = queue.records.len().min(MAX_BATCH);
                return Some(queue.records.drain(..count).collect());
            }
            if queue.closed {
                return None;
            }
            queue.idle = true;
            queue = self.work_available.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle = false;
        }
    }

    /// Marks these records as written or dropped.
    fn mark_finished(&self, records: &[Arc<LazyRecord>]) {
        let mut queue = self.lock();
        let bytes = records.iter().map(|record| record.queued_bytes).sum();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        queue.finished += records.len() as u64;
        if queue.flushing > 0 {
            self.progress_made.notify_all();
        }
    }
}

impl LineWriter {
    pub(crate) fn start(name: &'static str, sink: impl LineSink) -> Result<Self, TelemetryError> {
        let shared = Arc::new(WriterShared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run_writer(&theirs, sink))
            .map_err(|cause| TelemetryError::Thread { name, cause })?;
        Ok(LineWriter { _senders: Arc::new(SenderGuard(Arc::clone(&shared))), shared })
    }

    /// Queues a record. Never waits: if the queue is full, the record is dropped and counted.
    pub(crate) fn write(&self, record: &Arc<LazyRecord>) {
        let mut queue = self.shared.lock();
        let bytes = queue.bytes.saturating_add(record.queued_bytes);
        if queue.records.len() >= QUEUE_LINES || bytes > QUEUE_BYTES {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes = bytes;
        queue.accepted += 1;
        queue.records.push_back(Arc::clone(record));
        let asleep = std::mem::take(&mut queue.idle);
        drop(queue);
        if asleep {
            self.shared.work_available.notify_one();
        }
    }

    /// Number of lines lost since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all records queued before the call are written or dropped. Returns false if the deadline
    /// passes first.
    pub(crate) fn flush(&self, deadline: Instant) -> bool {
        let mut queue = self.shared.lock();
        let target = queue.accepted;
        queue.flushing += 1;
        self.shared.work_available.notify_one();
        while queue.finished < target {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining == Duration::ZERO {
                break;
            }
            let woken = self.shared.progress_made.wait_timeout(queue, remaining);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.flushing -= 1;
        queue.finished >= target
    }
}

fn run_writer(shared: &WriterShared, mut sink: impl LineSink) {
    let mut reported = 0;
    while let Some(records) = shared.next_batch() {
        let lost = shared.dropped.load(Ordering::Relaxed).saturating_sub(reported);
        if lost > 0 && sink.write(&sink.loss_notice(lost)).is_ok() {
            reported += lost;
        }
        let lines: Vec<Vec<u8>> = records.iter().map(|record| sink.format_line(record.record())).collect();
        shared.dropped.fetch_add(write_lines(&mut sink, &lines), Ordering::Relaxed);
        shared.mark_finished(&records);
    }
}

/// Writes lines in batches and returns the number of lost lines. The lines of a failed batch are retried one
/// by one, because some may still fit.
fn write_lines(sink: &mut impl LineSink, mut lines: &[Vec<u8>]) -> u64 {
    let mut lost = 0;
    while !lines.is_empty() {
        let mut space = sink.max_write_bytes();
        let fits =
            |line: &&Vec<u8>| space.checked_sub(line.len()).map(|remaining| space = remaining).is_some();
        let count = lines.iter().take_while(fits).count().max(1);
        let (now, later) = lines.split_at_checked(count).unwrap_or((lines, &[]));
        lost += match sink.write(&now.concat()) {
            Ok(()) => 0,
            Err(_) if count == 1 => 1,
            Err(_) => now.iter().filter(|line| sink.write(line).is_err()).count(),
        };
        lines = later;
    }
    lost as u64
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Sink that accepts a batch only when the test permits it.
    struct GatedSink {
        open: Receiver<io::Result<()>>,
        taken: ReceivedLines,
    }

    impl LineSink for GatedSink {
        fn format_line(&self, record: &LogEntry) -> Vec<u8> {
            format!("{}\n", record.message.as_deref().unwrap_or_default()).into_bytes()
        }

        fn max_write_bytes(&self) -> usize {
            16
        }

        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            self.open.recv().unwrap_or(Ok(()))?;
            let lines = std::str::from_utf8(lines).unwrap().lines().map(str::to_owned);
            self.taken.lock().unwrap().extend(lines);
            Ok(())
        }

        fn loss_notice(&self, lost: u64) -> Vec<u8> {
            format!("lost {lost}\n").into_bytes()
        }
    }

    type ReceivedLines = Arc<Mutex<Vec<String>>>;

    fn pending_record(text: &str) -> Arc<LazyRecord> {
        Arc::new(LazyRecord::from_message(text))
    }

    fn gated_writer() -> (SyncSender<io::Result<()>>, ReceivedLines, LineWriter) {
        let (permits, open) = sync_channel(100_000);
        let taken = Arc::new(Mutex::new(Vec::new()));
        let writer = LineWriter::start("test", GatedSink { open, taken: Arc::clone(&taken) }).unwrap();
        (permits, taken, writer)
    }

    #[test]
    fn hanging_sink_costs_lines_not_time() {
        let (permits, taken, writer) = gated_writer();
        let begun = Instant::now();
        for _ in 0..QUEUE_LINES * 2 {
            writer.write(&pending_record("x"));
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
        // Some lines are with the writer thread, or still in the queue.
        let (lost, max) = (writer.dropped(), QUEUE_LINES as u64);
        assert!((max - MAX_BATCH as u64..=max).contains(&lost), "{lost}");
        assert!(!writer.flush(Instant::now() + Duration::from_millis(10)), "the deadline is kept");
        drop(permits);
        assert!(writer.flush(Instant::now() + Duration::from_secs(10)));
        let taken = taken.lock().unwrap();
        let reported = taken.iter().filter_map(|line| line.strip_prefix("lost ")?.parse::<u64>().ok());
        assert_eq!(reported.sum::<u64>(), lost, "the loss is reported");
        assert_eq!(taken.iter().filter(|line| *line == "x").count() as u64, QUEUE_LINES as u64 * 2 - lost);
    }

    #[test]
    fn queue_is_bounded_by_bytes() {
        let (permits, _, writer) = gated_writer();
        for _ in 0..20 {
            writer.write(&pending_record(&"x".repeat(QUEUE_BYTES / 10)));
        }
        assert_eq!(writer.dropped(), 10);
        drop(permits);
        assert!(writer.flush(Instant::now() + Duration::from_secs(10)));
        writer.write(&pending_record("small"));
        assert_eq!(writer.dropped(), 10, "the queue has space again");
    }

    #[test]
    fn lines_of_a_failed_batch_are_retried_one_by_one() {
        let full = || Err(io::ErrorKind::StorageFull.into());
        let check = |lines: &[&str], results: Vec<io::Result<()>>, lost, expect: &[&str]| {
            let (permits, open) = sync_channel(10);
            let taken = ReceivedLines::default();
            let mut gate = GatedSink { open, taken: Arc::clone(&taken) };
            results.into_iter().for_each(|result| permits.send(result).unwrap());
            let lines: Vec<Vec<u8>> = lines.iter().map(|line| format!("{line}\n").into_bytes()).collect();
            assert_eq!(write_lines(&mut gate, &lines), lost);
            assert_eq!(*taken.lock().unwrap(), expect);
            assert!(gate.open.try_recv().is_err(), "the number of writes is as expected");
        };
        check(&["first", "second"], vec![Ok(())], 0, &["first", "second"]);
        check(&["first", "second"], vec![full(), full(), Ok(())], 1, &["second"]);
        check(&["first"], vec![full()], 1, &[]);
        let long = "x".repeat(20);
        check(&["first", &long, "last"], vec![Ok(()), full(), Ok(())], 1, &["first", "last"]);
        check(&["1234567", "1234567", "3"], vec![Ok(()), Ok(())], 0, &["1234567", "1234567", "3"]);
    }
}
