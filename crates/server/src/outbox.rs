//! Outgoing lines of one connection: a bounded queue and the task that writes it.
//!
//! A reply waits while the queue is full, and the connection reads nothing new meanwhile. If the client reads
//! nothing for too long, the queue is dropped; its calls end and are recorded without it.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Capacity of the queue, in bytes.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Queue bytes that one stream of notifications may use, so that replies do not wait behind more than that.
pub(crate) const STREAM_QUEUE_BYTES: usize = 64 * 1024;
/// Bookkeeping bytes counted for each queued line.
const LINE_OVERHEAD_BYTES: usize = 256;
/// Unsent bytes above which the shorter stall timeout applies, to free their memory for other connections.
const CROWDED_BYTES: usize = 16 * 1024 * 1024;
const CROWDED_STALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Lines taken from the queue at a time, and the maximum bytes of short lines combined into one write.
const MAX_BATCH_LINES: usize = 64;
const MAX_BATCH_BYTES: usize = 64 * 1024;
/// Interval at which a stalled write is checked against its timeout.
const STALL_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Sending side of the queue. Clones share the queue; the writer ends when all clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(Arc<OutboxQueue>);

/// Functions that the service of the connection supplies.
#[derive(Clone)]
pub(crate) struct OutboxHooks {
    /// Charges the bytes of a line to the caller of the connection.
    pub(crate) charge: Arc<dyn Fn(usize) + Send + Sync>,
    /// Called before queued lines are written: whatever must have happened before a reply leaves.
    pub(crate) before_write: Arc<dyn Fn() + Send + Sync>,
}

#[cfg(test)]
impl OutboxHooks {
    pub(crate) fn none() -> Self {
        OutboxHooks { charge: Arc::new(|_| ()), before_write: Arc::new(|| ()) }
    }
}

impl fmt::Debug for OutboxHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxHooks").finish_non_exhaustive()
    }
}

/// State shared by the clones, behind one reference count because every call clones the outbox.
#[derive(Debug)]
struct OutboxQueue {
    lines: mpsc::UnboundedSender<QueuedLine>,
    capacity: Arc<Semaphore>,
    unsent_bytes: Arc<AtomicUsize>,
    closed: CancellationToken,
    hooks: OutboxHooks,
}

#[derive(Debug)]
struct QueuedLine {
    line: Vec<u8>,
    _capacity: OwnedSemaphorePermit,
    /// Share of the stream's own limit, for a notification.
    _share: Option<OwnedSemaphorePermit>,
    _unsent: UnsentBytes,
}

/// Counts a line as unsent until it is dropped.
#[derive(Debug)]
struct UnsentBytes(Arc<AtomicUsize>, usize);

impl Drop for UnsentBytes {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Outbox {
    /// Creates a queue and spawns the task that writes it to `sink`. Each line is charged when it is enqueued.
    pub(crate) fn open<W>(sink: W, stall_timeout: Duration, hooks: OutboxHooks) -> (Outbox, JoinHandle<()>)
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (lines, queue) = mpsc::unbounded_channel();
        let (space, unsent) = (Arc::new(Semaphore::new(QUEUE_BYTES)), Arc::<AtomicUsize>::default());
        let closed = CancellationToken::new();
        let before_write = Arc::clone(&hooks.before_write);
        let outbox = OutboxQueue {
            lines,
            capacity: Arc::clone(&space),
            unsent_bytes: Arc::clone(&unsent),
            closed: closed.clone(),
            hooks,
        };
        let writer = OutboxWriter {
            sink,
            queue,
            capacity: space,
            unsent_bytes: unsent,
            closed,
            stall_timeout,
            before_write,
        };
        (Outbox(Arc::new(outbox)), tokio::spawn(writer.run()))
    }

    /// Enqueues a line as soon as there is capacity. The line is dropped if the client has disconnected.
    pub(crate) async fn send(&self, line: Vec<u8>) {
        self.enqueue(line, None).await;
    }

    /// Like `send`, but first waits for capacity in the given share of the queue.
    pub(crate) async fn send_with_share(&self, share: &Arc<Semaphore>, line: Vec<u8>) {
        let needed = u32::try_from(line.len().min(STREAM_QUEUE_BYTES)).unwrap_or(u32::MAX);
        tokio::select! {
            () = self.closed() => {}
            share = Arc::clone(share).acquire_many_owned(needed) => self.enqueue(line, share.ok()).await,
        }
    }

    async fn enqueue(&self, line: Vec<u8>, share: Option<OwnedSemaphorePermit>) {
        let OutboxQueue { lines, capacity: space, unsent_bytes: unsent, hooks, .. } = &*self.0;
        (hooks.charge)(line.len());
        unsent.fetch_add(line.len(), Ordering::Relaxed);
        let weight = UnsentBytes(Arc::clone(unsent), line.len());
        // A line larger than the queue occupies the whole queue.
        let needed = u32::try_from((line.len() + LINE_OVERHEAD_BYTES).min(QUEUE_BYTES)).unwrap_or(u32::MAX);
        if let Ok(space) = Arc::clone(space).acquire_many_owned(needed).await {
            let _ = lines.send(QueuedLine { line, _capacity: space, _share: share, _unsent: weight });
        }
    }

    /// Stops sending and releases the tasks that wait for capacity.
    pub(crate) fn abandon(&self) {
        self.0.closed.cancel();
        self.0.capacity.close();
    }

    /// Waits until nothing more can be sent.
    pub(crate) async fn closed(&self) {
        self.0.closed.cancelled().await;
    }
}

struct OutboxWriter<W> {
    sink: W,
    queue: mpsc::UnboundedReceiver<QueuedLine>,
    capacity: Arc<Semaphore>,
    unsent_bytes: Arc<AtomicUsize>,
    closed: CancellationToken,
    stall_timeout: Duration,
    before_write: Arc<dyn Fn() + Send + Sync>,
}

impl<W: AsyncWrite + Unpin> OutboxWriter<W> {
    async fn run(mut self) {
        let mut queued = Vec::new();
        while self.queue.recv_many(&mut queued, MAX_BATCH_LINES).await > 0 {
            (self.before_write)();
            if let Err(reason) = self.write_all(&queued).await {
                tracing::debug!(reason, "client_gone");
                break;
            }
            queued.clear();
        }
        self.closed.cancel();
        self.capacity.close();
        let _ = self.sink.shutdown().await;
    }

    /// Combines short lines into one write, so that a client with many requests open is woken less often.
    async fn write_all(&mut self, queued: &[QueuedLine]) -> Result<(), &'static str> {
        let [QueuedLine { line, .. }] = queued else { return self.write_batch(queued).await };
        self.write(line).await
    }

    async fn write_batch(&mut self, queued: &[QueuedLine]) -> Result<(), &'static str> {
        let mut together = Vec::new();
        for QueuedLine { line, .. } in queued {
            if together.len() + line.len() > MAX_BATCH_BYTES {
                self.write(&together).await?;
                together.clear();
            }
            match line.len() > MAX_BATCH_BYTES {
                true => self.write(line).await?,
                false => together.extend_from_slice(line),
            }
        }
        self.write(&together).await
    }

    async fn write(&mut self, mut rest: &[u8]) -> Result<(), &'static str> {
        while !rest.is_empty() {
            // Most lines are written completely at the first attempt, which needs no timer.
            let first = poll_fn(|context| Poll::Ready(Pin::new(&mut self.sink).poll_write(context, rest)));
            let written = match first.await {
                Poll::Ready(written) => written,
                Poll::Pending => self.write_with_timeout(rest).await?,
            };
            match written {
                Ok(0) | Err(_) => return Err("the connection is closed"),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Waits until the sink accepts some bytes, up to the stall timeout.
    async fn write_with_timeout(&mut self, bytes: &[u8]) -> Result<io::Result<usize>, &'static str> {
        let began = Instant::now();
        loop {
            match timeout(STALL_POLL_INTERVAL, self.sink.write(bytes)).await {
                Ok(written) => return Ok(written),
                Err(_) if began.elapsed() >= self.stall_timeout() => {
                    return Err("it does not read its replies");
                }
                Err(_) => {}
            }
        }
    }

    fn stall_timeout(&self) -> Duration {
        let crowded = self.unsent_bytes.load(Ordering::Relaxed) > CROWDED_BYTES;
        if crowded { self.stall_timeout.min(CROWDED_STALL_TIMEOUT) } else { self.stall_timeout }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Context;

    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::notify::Notifier;

    const LONG_TIMEOUT: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn replies_and_notifications_are_charged() {
        let (server, mut client) = tokio::io::duplex(64 * 1024);
        let charged = Arc::<AtomicUsize>::default();
        let total = Arc::clone(&charged);
        let charge = Arc::new(move |bytes| {
            total.fetch_add(bytes, Ordering::Relaxed);
        });
        let (outbox, writer) =
            Outbox::open(server, LONG_TIMEOUT, OutboxHooks { charge, ..OutboxHooks::none() });
        outbox.send(vec![b'x'; 1000]).await;
        Notifier::new(outbox).notify("tick", &"y".repeat(2000)).await;
        writer.await.unwrap();
        let mut sent = Vec::new();
        client.read_to_end(&mut sent).await.unwrap();
        assert!(sent.len() > 3000 && charged.load(Ordering::Relaxed) == sent.len(), "{charged:?}");
    }

    #[tokio::test]
    async fn lines_are_written_in_order_before_the_stream_ends() {
        let (server, mut client) = tokio::io::duplex(16);
        let (outbox, writer) = Outbox::open(server, LONG_TIMEOUT, OutboxHooks::none());
        let larger_than_the_queue = vec![b'x'; QUEUE_BYTES + 1];
        let sent = [b"one\n".to_vec(), larger_than_the_queue, b"two\n".to_vec()];
        let expect = sent.concat();
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.unwrap();
            all
        });
        for line in sent {
            outbox.send(line).await;
        }
        drop(outbox);
        writer.await.unwrap();
        assert!(reading.await.unwrap() == expect);
    }

    /// Sink that records the size of every write.
    #[derive(Clone, Default)]
    struct WriteSizes(Arc<Mutex<Vec<usize>>>);

    impl AsyncWrite for WriteSizes {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.lock().unwrap().push(bytes.len());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn queued_short_lines_are_written_in_one_batch() {
        let sink = WriteSizes::default();
        let sizes = Arc::clone(&sink.0);
        // Marks its call with a size that no write has.
        let before_write = Arc::new(move || sizes.lock().unwrap().push(0));
        let hooks = OutboxHooks { before_write, ..OutboxHooks::none() };
        let (outbox, writer) = Outbox::open(sink.clone(), LONG_TIMEOUT, hooks);
        // Nothing is written before this task yields.
        for length in [10, 20, MAX_BATCH_BYTES, MAX_BATCH_BYTES + 1, 30, 40] {
            outbox.send(vec![b'x'; length]).await;
        }
        drop(outbox);
        writer.await.unwrap();
        assert_eq!(*sink.0.lock().unwrap(), [0, 30, MAX_BATCH_BYTES, MAX_BATCH_BYTES + 1, 70]);
    }

    #[tokio::test]
    async fn client_that_never_reads_is_dropped_with_its_queue() {
        let (server, _client) = tokio::io::duplex(16);
        let stall_timeout = Duration::from_millis(300);
        let (outbox, writer) = Outbox::open(server, stall_timeout, OutboxHooks::none());
        let started = Instant::now();
        let sends: Vec<_> = (0..8)
            .map(|_| {
                let outbox = outbox.clone();
                tokio::spawn(async move { outbox.send(vec![b'x'; QUEUE_BYTES / 2]).await })
            })
            .collect();
        outbox.closed().await;
        assert!(started.elapsed() >= stall_timeout, "the full stall timeout passed");
        for send in sends {
            send.await.expect("a waiting reply is released");
        }
        writer.await.unwrap();
        assert_eq!(outbox.0.unsent_bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn large_backlog_shortens_the_stall_timeout() {
        let (server, _client) = tokio::io::duplex(16);
        let (outbox, _writer) = Outbox::open(server, LONG_TIMEOUT, OutboxHooks::none());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let outbox = outbox.clone();
                tokio::spawn(async move { outbox.send(vec![b'x'; CROWDED_BYTES / 2]).await })
            })
            .collect();
        let given_up = timeout(CROWDED_STALL_TIMEOUT * 5, outbox.closed()).await;
        assert!(given_up.is_ok(), "memory is held for a client that reads nothing");
        drop(waiting);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_client_stays_connected() {
        let (server, mut client) = tokio::io::duplex(16);
        let (outbox, writer) = Outbox::open(server, Duration::from_secs(3), OutboxHooks::none());
        outbox.send(vec![b'x'; 64]).await;
        drop(outbox);
        let mut some = [0; 16];
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            client.read_exact(&mut some).await.expect("still connected");
        }
        writer.await.unwrap();
    }
}
