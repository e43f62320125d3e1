//! Running an order: within its deadline and its bounds, and never taking the daemon down.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use registry::{Order, Tool};
use telemetry::metrics::Level;
use telemetry::{Note, Stage};
use tool::{Failure, FailureKind, Output, SandboxTier, canonical};

use crate::call::Call;
use crate::calls::StoppedBy;
use crate::content;
use crate::layer::ToolExecutionLayer;
use crate::pipeline::{Answered, Ending, Place};
use crate::recorder;
use crate::sessions;
use crate::slots::Slot;

/// What a passing fault is given to pass.
const PAUSE_BEFORE_RETRY: Duration = Duration::from_millis(100);
/// What a launcher is given to end a command and say how it ended. It takes a twentieth of that.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// What a task that is ended is given to let go of what it holds.
const TIME_TO_DIE: Duration = Duration::from_millis(100);

/// The mode or the rules changed before the tool was started, and nothing was run.
pub(crate) struct Overtaken;

/// Runs the tool in a task of its own, so that a panic is a failed call. Past its deadline the task is left to itself:
/// a thread in a system call cannot be stopped, and until it ends it keeps its place among the running.
pub(crate) async fn run(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Tool,
    order: &Arc<Order>,
    place: Place,
) -> Result<Ending, Overtaken> {
    let limit = call.time_left(order.value().timeout());
    // Not started, so not counted: only what ran uses up a rate.
    let Place { slot, counted } = place;
    let give_up = || layer.limits.uncount(&counted);
    if limit.is_zero() {
        give_up();
        let late = Failure::new(FailureKind::TimedOut, "the deadline passed before the tool was started");
        return Ok(Ending::NotStarted(late.hint("nothing was run")));
    }
    sessions::end_if_closed(call);
    // Putting the decision on disk takes time, and a human may have said stop meanwhile.
    if let Some(by) = call.stopped() {
        give_up();
        return Ok(Ending::NotStarted(by.not_started(&call.tool_name, call.mode)));
    }
    if layer.has_changed_since(call) {
        give_up();
        return Err(Overtaken);
    }
    if let Err(failure) = sessions::charge(call, order.value().call().definition().name()) {
        give_up();
        return Ok(Ending::NotStarted(failure));
    }
    recorder::announce_start(call, order);
    let _timing = call.span.stage(Stage::Run);
    let running = Attempt { layer, call, tool, order, slot: Arc::new(slot), until: Instant::now() + limit };
    let first = running.make(limit).await;
    match running.time_for_another(&first) {
        Some(pause) => {
            let _ = call.unless_stopped(tokio::time::sleep(pause)).await;
            if let Some(by) = call.stopped() {
                let end = Err(by.failure(&call.tool_name, layer.mode()));
                return Ok(Ending::Ran { end, attempts: 1 });
            }
            let left = running.until.saturating_duration_since(Instant::now());
            Ok(Ending::Ran { end: running.make(left).await, attempts: 2 })
        }
        None => Ok(Ending::Ran { end: first, attempts: 1 }),
    }
}

/// One order and what each attempt at it needs.
struct Attempt<'a> {
    layer: &'a ToolExecutionLayer,
    call: &'a Call,
    tool: &'a Tool,
    order: &'a Arc<Order>,
    /// Shared, so that a task that was left behind keeps the place.
    slot: Arc<Slot>,
    until: Instant,
}

impl Attempt<'_> {
    /// Whether the same may be tried again, and after which pause: once, where a fault passes by itself and doing it
    /// twice is the same as once, and only in the time there is.
    fn time_for_another(&self, end: &Result<Answered, Failure>) -> Option<Duration> {
        let passing = end.as_ref().is_err_and(|failure| failure.kind == FailureKind::Transient);
        let repeatable = self.order.value().call().definition().annotations().idempotent_hint;
        let left = self.until.saturating_duration_since(Instant::now());
        let allowed = passing
            && repeatable
            && left > PAUSE_BEFORE_RETRY
            && self.call.stopped().is_none()
            && !self.layer.has_changed_since(self.call);
        allowed.then_some(PAUSE_BEFORE_RETRY)
    }

    async fn make(&self, limit: Duration) -> Result<Answered, Failure> {
        let began = Instant::now();
        let running =
            self.tool.executor().run_telling(Arc::clone(self.order), content::screened(&self.call.progress));
        let place = Arc::clone(&self.slot);
        let work = AssertUnwindSafe(async move {
            let (_place, _counted) = (place, Level::ToolsRunning.hold());
            running.await
        });
        let mut work = Box::pin(work.catch_unwind());
        let end = match poll_fn(|context| Poll::Ready(work.poll_unpin(context))).await {
            // Most looks at files end here: a task and a timer would cost them more than they do.
            Poll::Ready(end) => End::Came(Ok(end)),
            Poll::Pending => Box::pin(self.wait_for(tokio::spawn(work), limit)).await,
        };
        match end {
            End::Came(Ok(Ok(end))) => {
                self.note_walls(began, &end);
                within_bounds(self.order, end)
            }
            End::Came(Ok(Err(_panic))) => Err(crashed("panicked")),
            End::Came(Err(_cancelled)) => Err(crashed("was cancelled")),
            End::TimedOut => {
                let message = format!("{} timed out after {:.1} s", self.call.tool_name, limit.as_secs_f64());
                Err(Failure::new(FailureKind::TimedOut, message)
                    .hint("its effect may still happen: look before trying again"))
            }
            End::Stopped(by) => Err(by.failure(&self.call.tool_name, self.layer.mode())),
        }
    }

    /// The walls of a tool's programs are the first thing it has built.
    fn note_walls(&self, began: Instant, end: &Result<Output, Failure>) {
        let (tier, confining) = match end {
            Ok(output) => (
                output.sandbox,
                Duration::try_from_secs_f64(output.usage.confine_ms / 1000.0).unwrap_or_default(),
            ),
            Err(failure) => (failure.sandbox, Duration::ZERO),
        };
        if tier != SandboxTier::None {
            self.call.span.note(Note::Sandbox(tier.as_str()));
            self.call.span.staged(Stage::Confine, began, confining);
        }
    }

    async fn wait_for(&self, mut task: tokio::task::JoinHandle<Ended>, limit: Duration) -> End {
        self.layer.calls.run(&self.call.track, self.order.value().call().definition());
        sessions::end_if_closed(self.call);
        if self.layer.has_changed_since(self.call) {
            // The mode changed before this call was on the list of those it looks through.
            self.layer.cancel_forbidden();
        }
        let makes_calls = self.tool.executor().makes_calls();
        tokio::select! {
            biased;
            end = &mut task => End::Came(end),
            by = self.ended_early(makes_calls) => {
                task.abort();
                // Whoever hears of the end must find it over; a process in walls takes a moment to be.
                let _ = tokio::time::timeout(TIME_TO_DIE, &mut task).await;
                End::Stopped(by)
            }
            () = tokio::time::sleep(self.patience(limit)) => {
                // A process in walls and a call end with whoever waits for them; a thread would only lose its place.
                if makes_calls || self.order.value().call().definition().requires_sandbox() {
                    task.abort();
                }
                End::TimedOut
            }
        }
    }

    /// Somebody ends it; or its caller has left, and it must make no more calls in that name.
    async fn ended_early(&self, makes_calls: bool) -> StoppedBy {
        tokio::select! {
            by = self.call.track.stop().given() => by,
            () = self.call.track.deserted(), if makes_calls => StoppedBy::Caller,
        }
    }

    /// A confined command is ended by its launcher when its time is up, and what it wrote until then is still to come.
    /// A caller who gave it less time than policy does is not kept waiting for that.
    fn patience(&self, limit: Duration) -> Duration {
        let permit = self.order.value();
        let ends_itself = permit.call().definition().requires_sandbox() && limit == permit.timeout();
        if ends_itself { limit + TIME_TO_END } else { limit }
    }
}

/// What the task of a tool gives: its answer, or its panic.
type Ended = Result<Result<Output, Failure>, Box<dyn std::any::Any + Send>>;

/// How waiting for a tool ended.
enum End {
    Came(Result<Ended, tokio::task::JoinError>),
    TimedOut,
    /// Somebody ended it.
    Stopped(StoppedBy),
}

/// An answer larger than policy allows is not cut blindly: only the tool knows where that makes sense.
fn within_bounds(order: &Order, end: Result<Output, Failure>) -> Result<Answered, Failure> {
    let most = order.value().max_output_bytes();
    let output = end.map_err(|failure| content::fit_to_tell(failure, most))?;
    if let Some(failure) = content::withheld(&output.value) {
        return Err(failure);
    }
    let canonical = canonical::bytes_for_now(&output.value);
    let bytes = canonical.len() as u64;
    if bytes > most {
        let message = format!("the answer has {bytes} bytes; policy allows {most}");
        return Err(
            Failure::new(FailureKind::TooLarge, message).hint("ask for less, or raise max_output_bytes")
        );
    }
    Ok(Answered { output, canonical })
}

/// The panic's own words may hold arguments, so they stay in the log of the process, not in the reply.
fn crashed(how: &str) -> Failure {
    Failure::new(FailureKind::Crashed, format!("the tool {how}"))
        .hint("this is a fault in the tool, not in the call")
}
