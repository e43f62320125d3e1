//! Hands a document to a confined worker of this program and takes its reading. A worker reads one document and is gone.
//! Where none can be started nothing is read: the daemon has no parser of its own to fall back on.

use std::time::{Duration, Instant};

use outbound::Answer;
use page::{Order, Purpose, Reading};
use sandbox::{End, Sandbox, SandboxError, Spent, Task, Worker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tool::{Failure, FailureKind, SandboxTier, Usage};

/// The task that makes this program a reader.
pub const PAGE_WORKER: &str = "page";

/// Enough for a tree of the largest page; what needs more is no page.
const MEMORY: u64 = 512 * 1024 * 1024;
/// A reading is text where the document was text, but each odd character of it is written out.
const WORST_GROWTH: u64 = 8;
const ROOM_FOR_FACTS: u64 = 64 * 1024;

/// A reading, and what it took.
pub(super) struct Read {
    pub(super) reading: Reading,
    pub(super) tier: SandboxTier,
    pub(super) usage: Usage,
}

/// Reads what came, within this time.
pub(super) async fn read(
    sandbox: &Sandbox,
    answer: &Answer,
    purpose: Purpose,
    most_bytes: u64,
    deadline: Instant,
) -> Result<Read, Failure> {
    let order = Order {
        purpose,
        content_type: answer.content_type.clone(),
        codings: answer.codings.clone(),
        most_bytes,
    };
    let message = page::write_order(&order, &answer.body).map_err(|error| {
        Failure::new(FailureKind::Crashed, format!("the page cannot be handed on: {error}"))
    })?;
    let lifetime = deadline.saturating_duration_since(Instant::now());
    let task = Task { name: PAGE_WORKER, memory_bytes: MEMORY, processes: 4, lifetime };
    let begun = Instant::now();
    let mut worker = sandbox.start(&task).await.map_err(|error| not_started(&error))?;
    let confining = begun.elapsed();
    let most = most_bytes.saturating_mul(WORST_GROWTH).saturating_add(ROOM_FOR_FACTS);
    let spoken = tokio::time::timeout(lifetime, speak(&mut worker, &message, most)).await;
    let tier = worker.tier();
    let (text, end, spent) = match spoken {
        Ok((text, Ok((end, spent)))) => (text, end, spent),
        Ok((_, Err(error))) => return Err(not_started(&error)),
        Err(_) => return Err(unread(End::TimedOut, tier)),
    };
    match page::read_reading(&text) {
        Ok(reading) => Ok(Read { reading, tier, usage: usage(&spent, confining) }),
        Err(_) => Err(unread(end, tier)),
    }
}

/// The document out, the reading in, and how the worker ended. One that ended early is known by what it did not say.
async fn speak(
    worker: &mut Worker,
    message: &[u8],
    most: u64,
) -> (Vec<u8>, Result<(End, Spent), SandboxError>) {
    let _ = worker.orders.write_all(message).await;
    let mut text = Vec::new();
    let _ = (&mut worker.answers).take(most).read_to_end(&mut text).await;
    (text, worker.ended().await)
}

fn usage(spent: &Spent, confining: Duration) -> Usage {
    Usage {
        cpu_ms: Duration::as_secs_f64(&spent.cpu) * 1000.0,
        max_rss_bytes: spent.max_rss_bytes,
        confine_ms: confining.as_secs_f64() * 1000.0,
        ..Usage::default()
    }
}

fn not_started(error: &SandboxError) -> Failure {
    Failure::new(FailureKind::Io, format!("nothing was read: {error}"))
        .hint("pages are read behind walls or not at all; `sinew doctor` says what this machine lacks")
}

fn unread(end: End, tier: SandboxTier) -> Failure {
    let (kind, how) = match end {
        End::TimedOut => (FailureKind::TimedOut, "took too long"),
        End::OutOfMemory => (FailureKind::TooLarge, "took too much memory"),
        End::Cancelled => (FailureKind::Cancelled, "was cancelled"),
        End::Exited(_) | End::Signalled(_) | End::Denied | End::TooManyProcesses | End::Killed => {
            (FailureKind::Unreadable, "made its reader fail")
        }
    };
    let failure = Failure::new(kind, format!("the page cannot be read: it {how}"));
    Failure { sandbox: tier, ..failure.hint("try view=source, or another page") }
}
