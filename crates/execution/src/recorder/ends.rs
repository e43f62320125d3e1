//! Records the outcome of a call whose decision is in the ledger: one ledger entry, one event, one result.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ledger::entry::{Concluded, EndFacts};
use ledger::{Effect, Entry, LedgerError, Outcome, Status};
use registry::Order;
use telemetry::{Event, emit, metrics};
use tool::{
    CallId, Failure, FailureKind, Metadata, Mode, Refusal, RefusalCode, SharedText, ToolResult, TraceContext,
};

use super::{effect, metadata, redacted, refused, stages, subject};
use crate::World;
use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::nudge;
use crate::pipeline::{Answered, Ending, Ran};

/// Records the outcome of a call and returns its result.
pub(crate) fn ended(layer: &ToolExecutionLayer, call: &Call, ran: Ran) -> ToolResult {
    let Ran { order, end } = ran;
    let definition = Arc::clone(order.value().call().definition());
    let (end, started, attempts) = match end {
        Ending::Ran { end, attempts } => {
            layer.count_ended(call, &definition, &end);
            (end, Started::Yes(effect(&definition)), attempts)
        }
        Ending::NotStarted(failure) => (Err(failure), Started::No, 0),
    };
    // Measured before the outcome is recorded: the time for that belongs to the ledger, not to the call.
    let latency = call.started.elapsed();
    let facts = EndFacts {
        stages: stages(call),
        attempts: (attempts > 1).then_some(attempts),
        undoable: end.as_ref().is_ok_and(|done| done.output.undoable).then_some(true),
    };
    let outcome = Outcome { facts, ..outcome(layer, latency, started, &end) };
    let concluded = layer.ledger.conclude(&order, outcome);
    let latency_ms = call.latency_ms();
    let (end, recorded) = match concluded {
        Ok(receipt) => (end, receipt.seq().is_some()),
        Err(error) => (Err(unrecorded(&end, &error)), false),
    };
    let name = definition.name().as_str();
    let metadata = Metadata {
        recorded,
        definition_hash: Some(definition.shared_hash()),
        remaining: order.value().remaining(layer.limits.counts(definition.name())),
        ..metadata(call)
    };
    match end {
        Ok(Answered { output: done, canonical }) => {
            layer.tally.done.fetch_add(1, Ordering::Relaxed);
            let output_bytes = canonical.len() as u64;
            emit(Event::ToolCallCompleted { call: subject(call, name), latency_ms, output_bytes });
            if let Some(cut) = &done.truncated {
                metrics::truncated(definition.name(), cut);
            }
            ToolResult::done(name, done, metadata, latency_ms)
        }
        Err(failure) => {
            let failure = nudge::advised(call, subject(call, name), &definition, failure);
            failed(layer, call, name, failure, metadata)
        }
    }
}

/// Records that a decided call was not started because the mode or the rules changed. The call then runs
/// through the pipeline again.
pub(crate) fn overtaken(layer: &ToolExecutionLayer, call: &Call, order: &Order) {
    let outcome = Outcome {
        failure: Some(FailureKind::Cancelled),
        message: Some(
            "the mode or the rules changed before the tool was started; the call is judged again".to_owned(),
        ),
        facts: EndFacts { stages: stages(call), ..EndFacts::default() },
        ..Outcome::new(Status::NotStarted, call.started.elapsed())
    };
    // If this cannot be written, the next decision cannot be written either, and the call is refused for
    // that.
    if let Err(error) = layer.ledger.conclude(order, outcome) {
        tracing::error!(%error, "a call was not started, but that could not be recorded");
    }
}

fn failed(
    layer: &ToolExecutionLayer,
    call: &Call,
    name: &str,
    failure: Failure,
    metadata: Metadata,
) -> ToolResult {
    layer.tally.failed.fetch_add(1, Ordering::Relaxed);
    let (kind, error, latency_ms) = (failure.kind, failure.message.as_str(), call.latency_ms());
    emit(Event::ToolCallFailed { call: subject(call, name), kind, error, latency_ms });
    ToolResult::failed(name, failure, metadata, latency_ms)
}

/// Start state of the tool, with the effect it could have.
#[derive(Clone, Copy)]
enum Started {
    Yes(Effect),
    No,
}

fn outcome(
    layer: &ToolExecutionLayer,
    latency: Duration,
    started: Started,
    end: &Result<Answered, Failure>,
) -> Outcome {
    match end {
        Ok(Answered { output: done, canonical }) => Outcome {
            output_digest: Some(layer.ledger.keyed_digest(canonical)),
            files_touched: done.files_touched.iter().map(|name| redacted(name)).collect(),
            truncated: done.truncated.clone(),
            usage: done.usage,
            ..Outcome::new(Status::Done, latency)
        },
        Err(failure) => Outcome {
            failure: Some(failure.kind),
            message: Some(redacted(&failure.message)),
            ..Outcome::new(status_of(failure, started), latency)
        },
    }
}

/// Status of a failed call. A changing call that timed out or was interrupted may still take effect or be
/// half done, so its status is unknown.
fn status_of(failure: &Failure, started: Started) -> Status {
    match (failure.kind, started) {
        (_, Started::No) => Status::NotStarted,
        (
            FailureKind::TimedOut | FailureKind::Cancelled | FailureKind::Interrupted,
            Started::Yes(Effect::Changes),
        ) => Status::Unknown,
        (_, Started::Yes(_)) => Status::Failed,
    }
}

/// Failure of a call whose outcome could not be recorded: the caller must not take it for done.
fn unrecorded<T>(end: &Result<T, Failure>, error: &LedgerError) -> Failure {
    let what = if end.is_ok() { "succeeded" } else { "failed" };
    Failure::new(FailureKind::Io, format!("the tool {what}, but that could not be recorded: {error}"))
        .hint("its effect may have happened; check before trying again")
}

/// Records a panic in a stage. Before the decision is recorded the call is refused, after that it has failed.
pub(crate) fn crashed(layer: &ToolExecutionLayer, call: &Call) -> ToolResult {
    let failure = internal_fault();
    if !call.is_intended() {
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, failure.message);
        return refused(
            layer,
            call,
            refusal.detail("internal_fault").hint("nothing was run; see the daemon log for details"),
        );
    }
    let outcome = Outcome {
        failure: Some(failure.kind),
        message: Some(failure.message.clone()),
        ..Outcome::new(Status::Unknown, call.started.elapsed())
    };
    let concluded = Concluded { call: call.on_record(&call.tool_name), outcome };
    let (failure, recorded) = match layer.ledger.append(&Entry::Outcome(concluded)) {
        Ok(_) => (failure, true),
        Err(error) => (unrecorded::<()>(&Err(failure), &error), false),
    };
    failed(layer, call, &call.tool_name, failure, Metadata { recorded, ..metadata(call) })
}

/// Data for the result of a call whose recording panicked. It is copied from the call beforehand and
/// formatted only if needed.
pub(crate) struct Traces {
    id: CallId,
    tool_name: SharedText,
    trace: TraceContext,
    mode: Mode,
    world: Arc<World>,
    started: Instant,
}

impl Traces {
    pub(crate) fn of(call: &Call) -> Self {
        Traces {
            id: call.id,
            tool_name: call.tool_name.clone(),
            trace: call.trace.clone(),
            mode: call.mode,
            world: Arc::clone(&call.world),
            started: call.started,
        }
    }

    /// Returns the result for a call whose recording panicked.
    pub(crate) fn crashed_result(self) -> ToolResult {
        let metadata = Metadata::new(self.id, &self.trace, self.mode, self.world.policy.shared_hash());
        let latency_ms = self.started.elapsed().as_secs_f64() * 1000.0;
        ToolResult::failed(&self.tool_name, internal_fault(), metadata, latency_ms)
    }
}

fn internal_fault() -> Failure {
    Failure::new(FailureKind::Crashed, "an internal fault in Sinew ended this call")
        .hint("the daemon keeps running; see its log for details")
}
