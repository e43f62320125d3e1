//! Passes a document to a sandboxed worker of this program and returns the parsed result. A worker parses one
//! document and exits. If no worker can be started the call fails: the daemon itself never parses documents.

use std::time::Instant;

use outbound::HttpResponse;
use sandbox::{ResourceUsage, RunEnd, Sandbox, SandboxError, SandboxWorker, WorkerTask};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tool::result::{SandboxTier, Usage};
use tool::{Failure, FailureKind};
use web_content::{ExtractionPurpose, ExtractionReply, ExtractionRequest};

/// Task name that makes this program run as a page worker.
pub const PAGE_WORKER: &str = "page";

/// Memory limit of a worker. It is enough for the tree of the largest page.
const MAX_MEMORY_BYTES: u64 = 512 * 1024 * 1024;
/// Largest growth of a text by escaping, in the result of the worker.
const WORST_GROWTH: u64 = 8;
const METADATA_RESERVE: u64 = 64 * 1024;

/// Parsed document and the resources it used.
pub(super) struct WorkerReading {
    pub(super) reading: ExtractionReply,
    pub(super) tier: SandboxTier,
    pub(super) usage: Usage,
}

/// Parses a response within the deadline.
pub(super) async fn read_document(
    sandbox: &Sandbox,
    response: &HttpResponse,
    purpose: ExtractionPurpose,
    max_bytes: u64,
    deadline: Instant,
) -> Result<WorkerReading, Failure> {
    let request = ExtractionRequest {
        purpose,
        content_type: response.content_type.clone(),
        codings: response.codings.clone(),
        max_bytes,
    };
    let message = web_content::write_request(&request, &response.body).map_err(|error| {
        Failure::new(FailureKind::Crashed, format!("the page cannot be passed to the worker: {error}"))
    })?;
    let lifetime = deadline.saturating_duration_since(Instant::now());
    let task = WorkerTask { name: PAGE_WORKER, memory_bytes: MAX_MEMORY_BYTES, processes: 4, lifetime };
    let begun = Instant::now();
    let mut worker = sandbox.start_worker(&task).await.map_err(|error| not_started(&error))?;
    let confining = begun.elapsed();
    let max = max_bytes.saturating_mul(WORST_GROWTH).saturating_add(METADATA_RESERVE);
    let exchanged = tokio::time::timeout(lifetime, exchange(&mut worker, &message, max)).await;
    let tier = worker.tier();
    let (text, end, spent) = match exchanged {
        Ok((text, Ok((end, spent)))) => (text, end, spent),
        Ok((_, Err(error))) => return Err(not_started(&error)),
        Err(_) => return Err(read_failure(RunEnd::TimedOut, tier)),
    };
    match web_content::read_reply(&text) {
        Ok(reading) => {
            // The worker reads and writes pipes only; the usage counts file access.
            let usage = Usage { read_bytes: 0, written_bytes: 0, ..spent.usage(confining) };
            Ok(WorkerReading { reading, tier, usage })
        }
        Err(_) => Err(read_failure(end, tier)),
    }
}

/// Sends the document, receives the result, and waits for the end of the worker. A worker that ended early is
/// detected by its incomplete result.
async fn exchange(
    worker: &mut SandboxWorker,
    message: &[u8],
    max: u64,
) -> (Vec<u8>, Result<(RunEnd, ResourceUsage), SandboxError>) {
    let _ = worker.requests.write_all(message).await;
    let mut text = Vec::new();
    let _ = (&mut worker.responses).take(max).read_to_end(&mut text).await;
    (text, worker.wait_until_ended().await)
}

fn not_started(error: &SandboxError) -> Failure {
    Failure::new(FailureKind::Io, format!("the page was not parsed: {error}"))
        .with_hint("pages are parsed only in a sandbox; run `sinew doctor` to see what is missing")
}

fn read_failure(end: RunEnd, tier: SandboxTier) -> Failure {
    let (kind, how) = match end {
        RunEnd::TimedOut => (FailureKind::TimedOut, "parsing took too long"),
        RunEnd::OutOfMemory => (FailureKind::TooLarge, "parsing took too much memory"),
        RunEnd::Cancelled => (FailureKind::Cancelled, "parsing was cancelled"),
        RunEnd::Exited(_)
        | RunEnd::Signalled(_)
        | RunEnd::Denied
        | RunEnd::TooManyProcesses
        | RunEnd::Killed => (FailureKind::Unreadable, "the parser failed"),
    };
    let failure = Failure::new(kind, format!("the page cannot be parsed: {how}"));
    Failure { sandbox: tier, ..failure.with_hint("try view=source, or another page") }
}
