//! Executor that runs a tool body on the blocking pool, because file operations can block for an unbounded
//! time (a dead mount, a permission dialog). Reads of small cached files run on the async thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use file_access::{ChangeRecorder, OpenedPath, UndoStore};
use governance::Permit;
use registry::{CallPreview, ExecutorFuture, RecordedPermit, ToolExecutor};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool::{Failure, FailureKind, ToolOutput};

use crate::tool_registration::TypedOutput;

/// Function that does the work of a tool, with typed arguments and a typed output.
pub(crate) enum BlockingBody<A, O> {
    /// Only reads.
    ReadOnly(fn(&Permit, &A) -> Result<TypedOutput<O>, Failure>),
    /// Changes files and saves their previous content in this store.
    FileChanging(fn(&ChangeContext<'_>, &A) -> Result<TypedOutput<O>, Failure>, Arc<UndoStore>),
}

/// Input of a tool that changes files. Every change needs `saving`, and only an `UndoStore` creates one.
pub(crate) struct ChangeContext<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) saving: ChangeRecorder,
}

/// Function that previews a call, with typed arguments.
pub(crate) type PreviewFn<A> = fn(&Permit, &A) -> Result<CallPreview, Failure>;

/// Executor that runs a `BlockingBody`.
pub(crate) struct BlockingTool<A, O> {
    body: Arc<BlockingBody<A, O>>,
    preview: PreviewFn<A>,
}

impl<A, O> BlockingTool<A, O> {
    pub(crate) fn new(body: BlockingBody<A, O>, preview: PreviewFn<A>) -> Self {
        BlockingTool { body: Arc::new(body), preview }
    }
}

/// Measures the CPU time of a body.
enum Stopwatch {
    /// CPU time of the current thread, which runs nothing else meanwhile. Costs two system calls.
    Thread(Duration),
    /// Wall clock, for a body that does not block. It overestimates slightly, and reading the thread clock
    /// would take as long as such a body does.
    Elapsed(Instant),
}

impl Stopwatch {
    fn thread() -> Self {
        Stopwatch::Thread(thread_cpu())
    }

    fn elapsed() -> Self {
        Stopwatch::Elapsed(Instant::now())
    }

    fn milliseconds(&self) -> f64 {
        let used = match self {
            Stopwatch::Thread(began) => thread_cpu().saturating_sub(*began),
            Stopwatch::Elapsed(began) => began.elapsed(),
        };
        used.as_secs_f64() * 1000.0
    }
}

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

/// Returns true if the call only reads small files that are cached in memory. Such a call does not block, and
/// moving it to another thread would take longer than running it.
fn is_prefetched(permit: &Permit) -> bool {
    let read_only = permit.call().definition().annotations().read_only_hint;
    read_only && !permit.paths().is_empty() && permit.paths().iter().all(OpenedPath::try_prefetch)
}

impl<A, O> ToolExecutor for BlockingTool<A, O>
where
    A: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        (self.preview)(permit, &permit.call().typed()?)
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        let body = Arc::clone(&self.body);
        Box::pin(async move {
            if is_prefetched(recorded_permit.value()) {
                return run_body(&body, &recorded_permit, &Stopwatch::elapsed());
            }
            match tokio::task::spawn_blocking(move || run_body(&body, &recorded_permit, &Stopwatch::thread()))
                .await
            {
                Ok(end) => end,
                // The panic propagates to the caller of `run`, which turns it into a failed call.
                Err(stopped) => match stopped.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(Failure::new(FailureKind::Cancelled, "Sinew is shutting down")),
                },
            }
        })
    }
}

fn run_body<A: DeserializeOwned, O: Serialize>(
    body: &BlockingBody<A, O>,
    recorded_permit: &RecordedPermit,
    stopwatch: &Stopwatch,
) -> Result<ToolOutput, Failure> {
    let permit = recorded_permit.value();
    let arguments = permit.call().typed()?;
    let mut output = match body {
        BlockingBody::ReadOnly(read) => read(permit, &arguments)?,
        BlockingBody::FileChanging(change_files, store) => {
            let change = ChangeContext { permit, saving: store.for_call(recorded_permit.call_id()) };
            let mut output = change_files(&change, &arguments)?;
            output.metadata.undoable = change.saving.recorded_changes() > 0;
            output
        }
    };
    output.metadata.usage.cpu_ms = stopwatch.milliseconds();
    output.into_output()
}
