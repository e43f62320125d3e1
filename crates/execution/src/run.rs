//! Run stage: runs the tool within its deadline and output limits, and survives panics of the tool.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use registry::{RecordedPermit, Tool};
use telemetry::metrics::Gauge;
use telemetry::{SpanNote, Stage};
use tool::result::SandboxTier;
use tool::{Category, Failure, FailureKind, ToolOutput, canonical};

use crate::calls::StoppedBy;
use crate::pipeline::{BoundedOutput, ExecutionEnd, PipelineHalt, RunReservation, StageContext};
use crate::recorder;
use crate::result_cache::ResultKey;
use crate::secret_screening;
use crate::sessions;
use crate::slots::Slot;

/// Delay before a transient failure is retried.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Longest pause that a peer may ask for before a retry. The caller decides about longer ones.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Extra time for the launcher to kill a command that timed out and to report how it ended. It normally takes
/// a twentieth of that.
const LAUNCHER_GRACE: Duration = Duration::from_secs(2);

/// Initial capacity for the canonical bytes of an output, enough for most.
const TYPICAL_OUTPUT_BYTES: usize = 4096;

/// Time for an aborted task to release its resources.
const ABORT_GRACE: Duration = Duration::from_millis(100);

/// Runs the tool. A panic becomes a failed call. A task that exceeds its deadline is abandoned, because a
/// thread in a system call cannot be stopped; it keeps its run slot until it ends. If the mode or the rules
/// changed since the decision was recorded, the tool is not started and the call is judged again.
pub(crate) async fn run(
    cx: &StageContext<'_>,
    recorded_permit: &Arc<RecordedPermit>,
    reservation: RunReservation,
) -> Result<ExecutionEnd, PipelineHalt> {
    let call = cx.call;
    let limit = call.time_left(recorded_permit.value().timeout());
    // A call that is not started does not count against its rate limits.
    let RunReservation { slot, counted_call } = reservation;
    let give_up = || cx.capacity.limits.uncount(&counted_call);
    if limit.is_zero() {
        give_up();
        let late = Failure::new(FailureKind::TimedOut, "the deadline passed before the tool was started");
        return Ok(ExecutionEnd::NotStarted(late.with_hint("nothing was run")));
    }
    sessions::cancel_if_closed(call);
    // Writing the decision to disk takes time, and the call may have been cancelled meanwhile.
    if let Some(by) = call.stopped_by() {
        give_up();
        return Ok(ExecutionEnd::NotStarted(by.not_started(&call.tool_name, call.header.mode)));
    }
    if cx.current.has_changed_since(call) {
        give_up();
        cx.recorder.record_not_started(call, recorded_permit);
        return Err(cx.rejudge(recorded_permit.value().call().arguments()));
    }
    let key = ResultKey::of(call, cx.tool, recorded_permit.value());
    if let Some((from, result)) = key.as_ref().and_then(|key| cx.result_cache.get(key)) {
        recorder::announce_start(call, recorded_permit);
        return Ok(ExecutionEnd::Cached { from, result });
    }
    if let Err(failure) = sessions::charge(call, recorded_permit.value().call().definition().name()) {
        give_up();
        return Ok(ExecutionEnd::NotStarted(failure));
    }
    recorder::announce_start(call, recorded_permit);
    let _timing = call.span.stage(Stage::Run);
    let running = PermitRunner { cx, recorded_permit, slot: Arc::new(slot), until: Instant::now() + limit };
    let (result, attempts) = running.run_with_retry(limit).await;
    if let (Some(key), Ok(result)) = (key, &result) {
        cx.result_cache.put(key, recorded_permit, result);
    }
    Ok(ExecutionEnd::Ran { result, attempts })
}

/// Adds the cause of the first attempt to the failure of the second. The second failure may be a consequence
/// of the first: the deadline can end the second attempt because a network fault used up the time.
fn with_first_cause(mut last: Failure, first: Result<BoundedOutput, Failure>) -> Failure {
    let Err(first) = first else { return last };
    last.is_network_fault |= last.kind == FailureKind::TimedOut;
    if first.message != last.message {
        last.message = format!("{}; the first attempt failed: {}", last.message, first.message);
    }
    last
}

/// One recorded permit, with everything that an attempt to run it needs.
struct PermitRunner<'a> {
    cx: &'a StageContext<'a>,
    recorded_permit: &'a Arc<RecordedPermit>,
    /// Shared with the task, so that an abandoned task keeps the slot.
    slot: Arc<Slot>,
    until: Instant,
}

impl PermitRunner<'_> {
    /// Runs the tool, and once more after a transient failure. Returns the number of attempts.
    async fn run_with_retry(&self, limit: Duration) -> (Result<BoundedOutput, Failure>, u32) {
        let first = self.attempt(limit).await;
        let Some(pause) = self.retry_delay(&first) else { return (first, 1) };
        let _ = self.cx.call.unless_stopped(tokio::time::sleep(pause)).await;
        if let Some(by) = self.cx.call.stopped_by() {
            return (Err(by.failure(&self.cx.call.tool_name, self.cx.current.mode.get())), 1);
        }
        let left = self.until.saturating_duration_since(Instant::now());
        let second = self.attempt(left).await;
        (second.map_err(|last| with_first_cause(last, first)), 2)
    }

    /// Returns the delay before a retry, or `None` if there must not be one. A call is retried once, only
    /// after a transient failure of an idempotent tool, and only while its time lasts.
    fn retry_delay(&self, end: &Result<BoundedOutput, Failure>) -> Option<Duration> {
        let failure = end.as_ref().err().filter(|failure| failure.is_transient())?;
        let repeatable = self.recorded_permit.value().call().definition().annotations().idempotent_hint;
        let left = self.until.saturating_duration_since(Instant::now());
        let delay = failure.retry_after.unwrap_or_default().max(RETRY_DELAY);
        let allowed = repeatable
            && delay <= MAX_RETRY_DELAY
            && left > delay
            && self.cx.call.stopped_by().is_none()
            && !self.cx.current.has_changed_since(self.cx.call);
        allowed.then_some(delay)
    }

    async fn attempt(&self, limit: Duration) -> Result<BoundedOutput, Failure> {
        let began = Instant::now();
        let progress = secret_screening::screen_progress(&self.cx.call.progress);
        let start = || self.cx.tool.executor().run_with_progress(Arc::clone(self.recorded_permit), progress);
        // A panic before the first await is the tool's too.
        let Ok(running) = std::panic::catch_unwind(AssertUnwindSafe(start)) else {
            return Err(crashed("panicked"));
        };
        let slot = Arc::clone(&self.slot);
        let work = AssertUnwindSafe(async move {
            let (_slot, _counted) = (slot, Gauge::ToolsRunning.increment());
            running.await
        });
        let mut work = Box::pin(work.catch_unwind());
        let end = match poll_fn(|context| Poll::Ready(work.poll_unpin(context))).await {
            // Most read-only file calls complete on the first poll. A task and a timer would cost more than
            // such a call.
            Poll::Ready(end) => TaskWait::Finished(Ok(end)),
            Poll::Pending => Box::pin(self.wait_for_task(tokio::spawn(work), limit)).await,
        };
        match end {
            TaskWait::Finished(Ok(Ok(end))) => {
                self.record_sandbox(began, &end);
                enforce_bounds(self.recorded_permit, end.and_then(|output| conforming(self.cx.tool, output)))
            }
            TaskWait::Finished(Ok(Err(_panic))) => Err(crashed("panicked")),
            TaskWait::Finished(Err(_cancelled)) => Err(crashed("was cancelled")),
            TaskWait::TimedOut => {
                let message =
                    format!("{} timed out after {:.1} s", self.cx.call.tool_name, limit.as_secs_f64());
                let category = self.recorded_permit.value().call().definition().category();
                let failure = match *category == Category::NETWORK {
                    true => Failure::network_timeout(message),
                    false => Failure::new(FailureKind::TimedOut, message),
                };
                Err(failure.with_hint("its effect may still happen: check before trying again"))
            }
            TaskWait::Stopped(by) => Err(by.failure(&self.cx.call.tool_name, self.cx.current.mode.get())),
        }
    }

    /// Records the sandbox tier and the time spent on building the sandbox, which is the first part of the
    /// run.
    fn record_sandbox(&self, began: Instant, end: &Result<ToolOutput, Failure>) {
        let (tier, confining) = match end {
            Ok(output) => (
                output.sandbox,
                Duration::try_from_secs_f64(output.usage.confine_ms / 1000.0).unwrap_or_default(),
            ),
            Err(failure) => (failure.sandbox, Duration::ZERO),
        };
        if tier != SandboxTier::None {
            self.cx.call.span.add_note(SpanNote::Sandbox(tier.as_str()));
            self.cx.call.span.record_stage(Stage::Confine, began, confining);
        }
    }

    async fn wait_for_task(
        &self,
        mut task: tokio::task::JoinHandle<TaskOutput>,
        limit: Duration,
    ) -> TaskWait {
        self.cx
            .active_calls
            .set_running(&self.cx.call.tracker, self.recorded_permit.value().call().definition());
        sessions::cancel_if_closed(self.cx.call);
        if self.cx.current.has_changed_since(self.cx.call) {
            // The mode changed before this call was on the list that `stop_forbidden_calls` scans.
            self.cx.current.stop_forbidden_calls(self.cx.active_calls);
        }
        let makes_calls = self.cx.tool.executor().makes_inner_calls();
        tokio::select! {
            biased;
            end = &mut task => TaskWait::Finished(end),
            by = self.cx.call.tracker.stop().wait() => {
                task.abort();
                // The call must be over when its end is reported, and a sandboxed process takes a moment to
                // exit.
                let _ = tokio::time::timeout(ABORT_GRACE, &mut task).await;
                TaskWait::Stopped(by)
            }
            () = tokio::time::sleep(self.timeout(limit)) => {
                // Aborting the task ends a sandboxed process or an inner call. A plain thread would continue,
                // but without its run slot.
                if makes_calls || self.recorded_permit.value().call().definition().requires_sandbox() {
                    task.abort();
                }
                TaskWait::TimedOut
            }
        }
    }

    /// Time to wait for the task. The launcher kills a sandboxed command at its timeout and then still
    /// delivers the output so far, so the wait is longer. A caller with a shorter deadline than the policy's
    /// timeout does not wait for that.
    fn timeout(&self, limit: Duration) -> Duration {
        let permit = self.recorded_permit.value();
        let ends_itself = permit.call().definition().requires_sandbox() && limit == permit.timeout();
        if ends_itself { limit + LAUNCHER_GRACE } else { limit }
    }
}

/// Result of the task of a tool: its output or failure, or its panic.
type TaskOutput = Result<Result<ToolOutput, Failure>, Box<dyn std::any::Any + Send>>;

/// Result of waiting for the task of a tool.
#[allow(clippy::large_enum_variant)] // one value per call, taken apart at once: a box would only add an allocation
enum TaskWait {
    Finished(Result<TaskOutput, tokio::task::JoinError>),
    TimedOut,
    /// The call was stopped.
    Stopped(StoppedBy),
}

/// In debug builds, fails a call whose output violates the output schema of its built-in tool, so that every test that
/// runs a tool also checks its output types. Connectors check the tools of manifests in every build.
fn conforming(tool: &Tool, output: ToolOutput) -> Result<ToolOutput, Failure> {
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
fn enforce_bounds(
    recorded_permit: &RecordedPermit,
    end: Result<ToolOutput, Failure>,
) -> Result<BoundedOutput, Failure> {
    let most = recorded_permit.value().max_output_bytes();
    let output = end.map_err(|failure| secret_screening::limit_failure(failure, most))?;
    if let Some(failure) = secret_screening::withheld_output(&output) {
        return Err(failure);
    }
    let mut canonical = Vec::with_capacity(TYPICAL_OUTPUT_BYTES);
    [&output.value]
        .into_iter()
        .chain(&output.content)
        .for_each(|part| canonical::append(&mut canonical, part));
    let bytes = canonical.len() as u64;
    if bytes > most {
        let message = format!("the result has {bytes} bytes; the limit is {most}");
        return Err(Failure::new(FailureKind::TooLarge, message)
            .with_hint("narrow the request, or raise max_output_bytes in tools.yaml"));
    }
    Ok(BoundedOutput { output, canonical })
}

/// Failure of a tool that panicked. The panic message may contain arguments, so it goes to the log only.
fn crashed(how: &str) -> Failure {
    Failure::new(FailureKind::Crashed, format!("the tool {how}"))
        .with_hint("this is a bug in the tool, not in the call")
}
