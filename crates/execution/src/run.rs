//! Run stage: runs the tool within its deadline and output limits, and survives panics of the tool.

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

/// Delay before a transient failure is retried.
const PAUSE_BEFORE_RETRY: Duration = Duration::from_millis(100);
/// Extra time for the launcher to kill a command that timed out and to report how it ended. It normally takes
/// a twentieth of that.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// Time for an aborted task to release its resources.
const TIME_TO_DIE: Duration = Duration::from_millis(100);

/// The mode or the rules changed after the decision was recorded and before the tool was started.
pub(crate) struct Overtaken;

/// Runs the tool. A panic becomes a failed call. A task that exceeds its deadline is abandoned, because a
/// thread in a system call cannot be stopped; it keeps its run slot until it ends.
pub(crate) async fn run(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Tool,
    order: &Arc<Order>,
    place: Place,
) -> Result<Ending, Overtaken> {
    let limit = call.time_left(order.value().timeout());
    // A call that is not started does not count against its rate limits.
    let Place { slot, counted } = place;
    let give_up = || layer.limits.uncount(&counted);
    if limit.is_zero() {
        give_up();
        let late = Failure::new(FailureKind::TimedOut, "the deadline passed before the tool was started");
        return Ok(Ending::NotStarted(late.hint("nothing was run")));
    }
    sessions::end_if_closed(call);
    // Writing the decision to disk takes time, and the call may have been cancelled meanwhile.
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

/// One order, with everything that an attempt to run it needs.
struct Attempt<'a> {
    layer: &'a ToolExecutionLayer,
    call: &'a Call,
    tool: &'a Tool,
    order: &'a Arc<Order>,
    /// Shared with the task, so that an abandoned task keeps the slot.
    slot: Arc<Slot>,
    until: Instant,
}

impl Attempt<'_> {
    /// Returns the delay before a retry, or `None` if there must not be one. A call is retried once, only
    /// after a transient failure of an idempotent tool, and only while its time lasts.
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
        let slot = Arc::clone(&self.slot);
        let work = AssertUnwindSafe(async move {
            let (_slot, _counted) = (slot, Level::ToolsRunning.hold());
            running.await
        });
        let mut work = Box::pin(work.catch_unwind());
        let end = match poll_fn(|context| Poll::Ready(work.poll_unpin(context))).await {
            // Most read-only file calls complete on the first poll. A task and a timer would cost more than
            // such a call.
            Poll::Ready(end) => End::Came(Ok(end)),
            Poll::Pending => Box::pin(self.wait_for(tokio::spawn(work), limit)).await,
        };
        match end {
            End::Came(Ok(Ok(end))) => {
                self.note_walls(began, &end);
                within_bounds(self.order, end.and_then(|output| conforming(self.tool, output)))
            }
            End::Came(Ok(Err(_panic))) => Err(crashed("panicked")),
            End::Came(Err(_cancelled)) => Err(crashed("was cancelled")),
            End::TimedOut => {
                let message = format!("{} timed out after {:.1} s", self.call.tool_name, limit.as_secs_f64());
                Err(Failure::new(FailureKind::TimedOut, message)
                    .hint("its effect may still happen: check before trying again"))
            }
            End::Stopped(by) => Err(by.failure(&self.call.tool_name, self.layer.mode())),
        }
    }

    /// Records the sandbox tier and the time spent on building the sandbox, which is the first part of the
    /// run.
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
            // The mode changed before this call was on the list that `stop_forbidden_calls` scans.
            self.layer.cancel_forbidden();
        }
        let makes_calls = self.tool.executor().makes_calls();
        tokio::select! {
            biased;
            end = &mut task => End::Came(end),
            by = self.ended_early(makes_calls) => {
                task.abort();
                // The call must be over when its end is reported, and a sandboxed process takes a moment to
                // exit.
                let _ = tokio::time::timeout(TIME_TO_DIE, &mut task).await;
                End::Stopped(by)
            }
            () = tokio::time::sleep(self.patience(limit)) => {
                // Aborting the task ends a sandboxed process or an inner call. A plain thread would continue,
                // but without its run slot.
                if makes_calls || self.order.value().call().definition().requires_sandbox() {
                    task.abort();
                }
                End::TimedOut
            }
        }
    }

    /// Waits for a stop request. A tool that makes calls is also stopped when its caller disconnects, because
    /// it must make no more calls on behalf of that caller.
    async fn ended_early(&self, makes_calls: bool) -> StoppedBy {
        tokio::select! {
            by = self.call.track.stop().given() => by,
            () = self.call.track.deserted(), if makes_calls => StoppedBy::Caller,
        }
    }

    /// Time to wait for the task. The launcher kills a sandboxed command at its timeout and then still
    /// delivers the output so far, so the wait is longer. A caller with a shorter deadline than the policy's
    /// timeout does not wait for that.
    fn patience(&self, limit: Duration) -> Duration {
        let permit = self.order.value();
        let ends_itself = permit.call().definition().requires_sandbox() && limit == permit.timeout();
        if ends_itself { limit + TIME_TO_END } else { limit }
    }
}

/// Result of the task of a tool: its output or failure, or its panic.
type Ended = Result<Result<Output, Failure>, Box<dyn std::any::Any + Send>>;

/// Result of waiting for the task of a tool.
enum End {
    Came(Result<Ended, tokio::task::JoinError>),
    TimedOut,
    /// The call was stopped.
    Stopped(StoppedBy),
}

/// In debug builds, fails a call whose output violates the output schema of its built-in tool, so that every test that
/// runs a tool also checks its output types. Connectors check the tools of manifests in every build.
fn conforming(tool: &Tool, output: Output) -> Result<Output, Failure> {
    let is_built_in = tool.definition().origin().is_none();
    if !cfg!(debug_assertions) || !is_built_in {
        return Ok(output);
    }
    match tool.output_violation(&output.value) {
        None => Ok(output),
        Some(violation) => {
            let name = tool.definition().name();
            Err(Failure::new(
                FailureKind::Crashed,
                format!("the output of `{name}` violates its schema: {violation}"),
            ))
        }
    }
}

/// Enforces the output limit and the blocked secrets. Too large an output is not cut, because only the tool
/// knows where a cut makes sense.
fn within_bounds(order: &Order, end: Result<Output, Failure>) -> Result<Answered, Failure> {
    let most = order.value().max_output_bytes();
    let output = end.map_err(|failure| content::fit_to_tell(failure, most))?;
    if let Some(failure) = content::withheld(&output.value) {
        return Err(failure);
    }
    let canonical = canonical::bytes(&output.value);
    let bytes = canonical.len() as u64;
    if bytes > most {
        let message = format!("the answer has {bytes} bytes; policy allows {most}");
        return Err(
            Failure::new(FailureKind::TooLarge, message).hint("ask for less, or raise max_output_bytes")
        );
    }
    Ok(Answered { output, canonical })
}

/// Failure of a tool that panicked. The panic message may contain arguments, so it goes to the log only.
fn crashed(how: &str) -> Failure {
    Failure::new(FailureKind::Crashed, format!("the tool {how}"))
        .hint("this is a bug in the tool, not in the call")
}
