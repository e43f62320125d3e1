//! Outgoing lines of one connection: a bounded queue and the task that writes it.
//!
//! A reply waits while the queue is full, and the connection reads nothing new meanwhile. If the client reads
//! nothing for too long, the queue is dropped; its calls end and are recorded without it.

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
const ROOM: usize = 4 * 1024 * 1024;
/// Queue bytes that one stream of notifications may use, so that replies do not wait behind more than that.
pub(crate) const SHARE: usize = 64 * 1024;
/// Bookkeeping bytes counted for each queued line.
const OVERHEAD: usize = 256;
/// Unsent bytes above which the shorter stall timeout applies, to free their memory for other connections.
const CROWDED: usize = 16 * 1024 * 1024;
const PATIENCE_WHEN_CROWDED: Duration = Duration::from_secs(1);
/// Lines taken from the queue at a time, and the maximum bytes of short lines combined into one write.
const MOST_TOGETHER: usize = 64;
const TOGETHER: usize = 64 * 1024;
/// Interval at which a stalled write is checked against its timeout.
const GLANCE: Duration = Duration::from_millis(250);

/// Sending side of the queue. Clones share the queue; the writer ends when all clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(Arc<Queue>);

/// State shared by the clones, behind one reference count because every call clones the outbox.
#[derive(Debug)]
struct Queue {
    lines: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    unsent: Arc<AtomicUsize>,
    gone: CancellationToken,
}

#[derive(Debug)]
struct Queued {
    line: Vec<u8>,
    _room: OwnedSemaphorePermit,
    /// Share of the stream's own limit, for a notification.
    _share: Option<OwnedSemaphorePermit>,
    _weight: Weight,
}

/// Counts a line as unsent until it is dropped.
#[derive(Debug)]
struct Weight(Arc<AtomicUsize>, usize);

impl Drop for Weight {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Outbox {
    /// Creates a queue and spawns the task that writes it to `sink`.
    pub(crate) fn open<W>(sink: W, patience: Duration) -> (Outbox, JoinHandle<()>)
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (lines, queue) = mpsc::unbounded_channel();
        let (room, unsent) = (Arc::new(Semaphore::new(ROOM)), Arc::<AtomicUsize>::default());
        let gone = CancellationToken::new();
        let outbox =
            Queue { lines, room: Arc::clone(&room), unsent: Arc::clone(&unsent), gone: gone.clone() };
        let writer = Writer { sink, queue, room, unsent, gone, patience };
        (Outbox(Arc::new(outbox)), tokio::spawn(writer.run()))
    }

    /// Enqueues a line as soon as there is capacity. The line is dropped if the client has disconnected.
    pub(crate) async fn send(&self, line: Vec<u8>) {
        self.put(line, None).await;
    }

    /// Like `send`, but first waits for capacity in the given share of the queue.
    pub(crate) async fn send_within(&self, share: &Arc<Semaphore>, line: Vec<u8>) {
        let needed = u32::try_from(line.len().min(SHARE)).unwrap_or(u32::MAX);
        tokio::select! {
            () = self.gone() => {}
            share = Arc::clone(share).acquire_many_owned(needed) => self.put(line, share.ok()).await,
        }
    }

    async fn put(&self, line: Vec<u8>, share: Option<OwnedSemaphorePermit>) {
        let Queue { lines, room, unsent, .. } = &*self.0;
        unsent.fetch_add(line.len(), Ordering::Relaxed);
        let weight = Weight(Arc::clone(unsent), line.len());
        // A line larger than the queue occupies the whole queue.
        let needed = u32::try_from((line.len() + OVERHEAD).min(ROOM)).unwrap_or(u32::MAX);
        if let Ok(room) = Arc::clone(room).acquire_many_owned(needed).await {
            let _ = lines.send(Queued { line, _room: room, _share: share, _weight: weight });
        }
    }

    /// Stops sending and releases the tasks that wait for capacity.
    pub(crate) fn give_up(&self) {
        self.0.gone.cancel();
        self.0.room.close();
    }

    /// Waits until nothing more can be sent.
    pub(crate) async fn gone(&self) {
        self.0.gone.cancelled().await;
    }
}

struct Writer<W> {
    sink: W,
    queue: mpsc::UnboundedReceiver<Queued>,
    room: Arc<Semaphore>,
    unsent: Arc<AtomicUsize>,
    gone: CancellationToken,
    patience: Duration,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn run(mut self) {
        let mut queued = Vec::new();
        while self.queue.recv_many(&mut queued, MOST_TOGETHER).await > 0 {
            if let Err(reason) = self.write_all(&queued).await {
                tracing::debug!(reason, "client_gone");
                break;
            }
            queued.clear();
        }
        self.gone.cancel();
        self.room.close();
        let _ = self.sink.shutdown().await;
    }

    /// Combines short lines into one write, so that a client with many requests open is woken less often.
    async fn write_all(&mut self, queued: &[Queued]) -> Result<(), &'static str> {
        let [Queued { line, .. }] = queued else { return self.write_together(queued).await };
        self.write(line).await
    }

    async fn write_together(&mut self, queued: &[Queued]) -> Result<(), &'static str> {
        let mut together = Vec::new();
        for Queued { line, .. } in queued {
            if together.len() + line.len() > TOGETHER {
                self.write(&together).await?;
                together.clear();
            }
            match line.len() > TOGETHER {
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
                Poll::Pending => self.write_patiently(rest).await?,
            };
            match written {
                Ok(0) | Err(_) => return Err("the connection is closed"),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Waits until the sink accepts some bytes, up to the stall timeout.
    async fn write_patiently(&mut self, bytes: &[u8]) -> Result<io::Result<usize>, &'static str> {
        let began = Instant::now();
        loop {
            match timeout(GLANCE, self.sink.write(bytes)).await {
                Ok(written) => return Ok(written),
                Err(_) if began.elapsed() >= self.patience() => return Err("it does not read its replies"),
                Err(_) => {}
            }
        }
    }

    fn patience(&self) -> Duration {
        let crowded = self.unsent.load(Ordering::Relaxed) > CROWDED;
        if crowded { self.patience.min(PATIENCE_WHEN_CROWDED) } else { self.patience }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Context;

    use tokio::io::AsyncReadExt;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn lines_are_written_in_order_before_the_stream_ends() {
        let (server, mut client) = tokio::io::duplex(16);
        let (outbox, writer) = Outbox::open(server, LONG);
        let larger_than_the_queue = vec![b'x'; ROOM + 1];
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
    struct Counting(Arc<Mutex<Vec<usize>>>);

    impl AsyncWrite for Counting {
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
        let sink = Counting::default();
        let (outbox, writer) = Outbox::open(sink.clone(), LONG);
        // Nothing is written before this task yields.
        for length in [10, 20, TOGETHER, TOGETHER + 1, 30, 40] {
            outbox.send(vec![b'x'; length]).await;
        }
        drop(outbox);
        writer.await.unwrap();
        assert_eq!(*sink.0.lock().unwrap(), [30, TOGETHER, TOGETHER + 1, 70]);
    }

    #[tokio::test]
    async fn client_that_never_reads_is_dropped_with_its_queue() {
        let (server, _client) = tokio::io::duplex(16);
        let patience = Duration::from_millis(300);
        let (outbox, writer) = Outbox::open(server, patience);
        let started = Instant::now();
        let sends: Vec<_> = (0..8)
            .map(|_| {
                let outbox = outbox.clone();
                tokio::spawn(async move { outbox.send(vec![b'x'; ROOM / 2]).await })
            })
            .collect();
        outbox.gone().await;
        assert!(started.elapsed() >= patience, "the full stall timeout passed");
        for send in sends {
            send.await.expect("a waiting reply is released");
        }
        writer.await.unwrap();
        assert_eq!(outbox.0.unsent.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn large_backlog_shortens_the_stall_timeout() {
        let (server, _client) = tokio::io::duplex(16);
        let (outbox, _writer) = Outbox::open(server, LONG);
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let outbox = outbox.clone();
                tokio::spawn(async move { outbox.send(vec![b'x'; CROWDED / 2]).await })
            })
            .collect();
        let given_up = timeout(PATIENCE_WHEN_CROWDED * 5, outbox.gone()).await;
        assert!(given_up.is_ok(), "memory is held for a client that reads nothing");
        drop(waiting);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_client_stays_connected() {
        let (server, mut client) = tokio::io::duplex(16);
        let (outbox, writer) = Outbox::open(server, Duration::from_secs(3));
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
