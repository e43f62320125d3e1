//! Executor that runs a tool body on the blocking pool, because file operations can block for an unbounded
//! time (a dead mount, a permission dialog). Reads of small cached files run on the async thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use file_access::{OpenedPath, Saving, UndoStore};
use governance::Permit;
use registry::{Order, Preview, Running, ToolExecutor};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool::{Failure, FailureKind, Output};

use crate::tool_entry::Answer;

/// Function that does the work of a tool, with typed arguments and a typed output.
pub(crate) enum Body<A, O> {
    /// Only reads.
    Looks(fn(&Permit, &A) -> Result<Answer<O>, Failure>),
    /// Changes files and saves their previous content in this store.
    Changes(fn(&Changing<'_>, &A) -> Result<Answer<O>, Failure>, Arc<UndoStore>),
}

/// Input of a tool that changes files. Every change needs `saving`, and only an `UndoStore` creates one.
pub(crate) struct Changing<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) saving: Saving,
}

/// Function that previews a call, with typed arguments.
pub(crate) type Foresight<A> = fn(&Permit, &A) -> Result<Preview, Failure>;

/// Executor that runs a `BlockingBody`.
pub(crate) struct OnThread<A, O> {
    body: Arc<Body<A, O>>,
    foresight: Foresight<A>,
}

impl<A, O> OnThread<A, O> {
    pub(crate) fn new(body: Body<A, O>, foresight: Foresight<A>) -> Self {
        OnThread { body: Arc::new(body), foresight }
    }
}

/// Measures the CPU time of a body.
enum Stopwatch {
    /// CPU time of the current thread, which runs nothing else meanwhile. Costs two system calls.
    Thread(Duration),
    /// Wall clock, for a body that does not block. It overestimates slightly, and reading the thread clock
    /// would take as long as such a body does.
    Wall(Instant),
}

impl Stopwatch {
    fn thread() -> Self {
        Stopwatch::Thread(thread_cpu())
    }

    fn wall() -> Self {
        Stopwatch::Wall(Instant::now())
    }

    fn milliseconds(&self) -> f64 {
        let used = match self {
            Stopwatch::Thread(began) => thread_cpu().saturating_sub(*began),
            Stopwatch::Wall(began) => began.elapsed(),
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
fn is_at_hand(permit: &Permit) -> bool {
    let read_only = permit.call().definition().annotations().read_only_hint;
    read_only && !permit.paths().is_empty() && permit.paths().iter().all(OpenedPath::take_in_hand)
}

impl<A, O> ToolExecutor for OnThread<A, O>
where
    A: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
{
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        (self.foresight)(permit, &permit.call().typed()?)
    }

    fn run(&self, order: Arc<Order>) -> Running {
        let body = Arc::clone(&self.body);
        Box::pin(async move {
            if is_at_hand(order.value()) {
                return perform(&body, &order, &Stopwatch::wall());
            }
            match tokio::task::spawn_blocking(move || perform(&body, &order, &Stopwatch::thread())).await {
                Ok(end) => end,
                // The panic propagates to the caller of the order, which turns it into a failed call.
                Err(stopped) => match stopped.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(Failure::new(FailureKind::Cancelled, "Sinew is shutting down")),
                },
            }
        })
    }
}

fn perform<A: DeserializeOwned, O: Serialize>(
    body: &Body<A, O>,
    order: &Order,
    stopwatch: &Stopwatch,
) -> Result<Output, Failure> {
    let permit = order.value();
    let arguments = permit.call().typed()?;
    let mut answer = match body {
        Body::Looks(read) => read(permit, &arguments)?,
        Body::Changes(change_files, store) => {
            let change = Changing { permit, saving: store.for_call(order.call_id()) };
            let mut answer = change_files(&change, &arguments)?;
            answer.facts.undoable = change.saving.kept() > 0;
            answer
        }
    };
    answer.facts.usage.cpu_ms = stopwatch.milliseconds();
    answer.into_output()
}
