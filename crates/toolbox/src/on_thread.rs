//! Runs a tool's body on a thread that may block, because files can: a dead mount or a permission dialog holds a
//! system call for as long as it likes, and must hold nothing else. What is in memory is read at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::Permit;
use registry::{Order, Preview, Running, ToolExecutor};
use resources::{OpenedPath, Saving, UndoStore};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool::{Failure, FailureKind, Output};

use crate::tool_entry::Answer;

/// What a tool does, with typed arguments and a typed output.
pub(crate) enum Body<A, O> {
    /// It only looks.
    Looks(fn(&Permit, &A) -> Result<Answer<O>, Failure>),
    /// It changes files. What was there before is kept in this store.
    Changes(fn(&Changing<'_>, &A) -> Result<Answer<O>, Failure>, Arc<UndoStore>),
}

/// What a tool that changes files is handed: nothing is changed without the second, and only a store makes one.
pub(crate) struct Changing<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) saving: Saving,
}

/// What a tool would do, with typed arguments.
pub(crate) type Foresight<A> = fn(&Permit, &A) -> Result<Preview, Failure>;

/// Runs a body.
pub(crate) struct OnThread<A, O> {
    body: Arc<Body<A, O>>,
    foresight: Foresight<A>,
}

impl<A, O> OnThread<A, O> {
    pub(crate) fn new(body: Body<A, O>, foresight: Foresight<A>) -> Self {
        OnThread { body: Arc::new(body), foresight }
    }
}

/// Measures the processor time of a body.
enum Stopwatch {
    /// By this thread's own, which runs nothing but the body meanwhile. The kernel is asked twice.
    Thread(Duration),
    /// By the wall clock, for what waits for nothing: at most a little more, and asking the kernel would take as long as the
    /// body does.
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

/// Whether all that is asked for is to look at small files that are in memory: that blocks nothing, and handing it
/// to a thread would take longer than doing it.
fn is_at_hand(permit: &Permit) -> bool {
    let looks = permit.call().definition().annotations().read_only_hint;
    looks && !permit.paths().is_empty() && permit.paths().iter().all(OpenedPath::take_in_hand)
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
                // The panic goes on to whoever runs the order, who turns it into a failed call.
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
        Body::Looks(look) => look(permit, &arguments)?,
        Body::Changes(make, store) => {
            let change = Changing { permit, saving: store.for_call(order.call_id()) };
            let mut answer = make(&change, &arguments)?;
            answer.facts.undoable = change.saving.kept() > 0;
            answer
        }
    };
    answer.facts.usage.cpu_ms = stopwatch.milliseconds();
    let value = serde_json::to_value(answer.value).map_err(|error| {
        Failure::new(FailureKind::Crashed, format!("the tool's answer is not JSON: {error}"))
    })?;
    Ok(Output { value, ..answer.facts })
}
