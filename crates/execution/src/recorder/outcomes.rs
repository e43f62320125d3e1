//! Records the outcome of a call whose decision is in the ledger: one ledger entry, one event, one result.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ledger::entry::{OutcomeFacts, RecordedOutcome};
use ledger::{CallHeader, Ledger, LedgerEntry, LedgerError, LedgerOutcome, OutcomeStatus, RecordedEffect};
use registry::RecordedPermit;
use telemetry::{Stage, TelemetryEvent, emit, metrics};
use tool::result::{FailedOutcome, ResultMetadata};
use tool::text::SharedText;
use tool::{Failure, FailureKind, Refusal, RefusalCode, ToolResult};

use super::{Recorder, effect, ledger_unavailable, metadata, redacted, stages, subject};
use crate::ConfigSnapshot;
use crate::call::PipelineCall;
use crate::limits::CallLimits;
use crate::nudge;
use crate::pipeline::{BoundedOutput, ExecutionEnd, PipelineHalt};

impl Recorder {
    /// Records the outcome of a call and returns its result. A read whose only record cannot be written is
    /// refused: its result must not leave the daemon.
    pub(crate) fn record_outcome(
        &self,
        limits: &CallLimits,
        call: &PipelineCall,
        recorded_permit: &RecordedPermit,
        end: ExecutionEnd,
    ) -> Result<ToolResult, PipelineHalt> {
        let definition = Arc::clone(recorded_permit.value().call().definition());
        let mut cached_from = None;
        let (end, started, attempts) = match end {
            ExecutionEnd::Ran { result: end, attempts } => {
                self.mode_watch.count_ended(call, &definition, &end);
                (end, ToolStart::Yes(effect(&definition)), attempts)
            }
            ExecutionEnd::Cached { from, result } => {
                cached_from = Some(from);
                (Ok(result), ToolStart::No, 0)
            }
            ExecutionEnd::NotStarted(failure) => (Err(failure), ToolStart::No, 0),
        };
        // Measured before the outcome is recorded: the time for that belongs to the ledger, not to the call.
        let latency = call.started.elapsed();
        let facts = OutcomeFacts {
            stages: stages(call),
            attempts: (attempts > 1).then_some(attempts),
            undoable: end.as_ref().is_ok_and(|done| done.output.undoable).then_some(true),
            cached_from,
        };
        let outcome = LedgerOutcome { facts, ..outcome(&self.ledger, latency, started, &end) };
        let concluded = {
            let _timing = call.span.stage(Stage::RecordOutcome);
            self.ledger.conclude(recorded_permit, outcome)
        };
        if let (Err(error), None) = (&concluded, recorded_permit.receipt()) {
            return Err(ledger_unavailable(&call.tool_name, error).into());
        }
        call.mark_decision_recorded();
        call.mark_outcome_recorded();
        let latency_ms = call.latency_ms();
        let (end, recorded) = match concluded {
            Ok(receipt) => (end, receipt.seq().is_some()),
            Err(error) => (Err(unrecorded_failure(&end, &error)), false),
        };
        let name = definition.name().as_str();
        let cached = cached_from.is_some();
        let metadata = ResultMetadata {
            recorded,
            cached,
            definition_hash: Some(definition.shared_hash()),
            remaining: recorded_permit
                .value()
                .remaining_calls(limits.counts(&call.caller_key, definition.name())),
            ..metadata(call)
        };
        match end {
            Ok(BoundedOutput { output: done, canonical }) => {
                self.tally.done.fetch_add(1, Ordering::Relaxed);
                let output_bytes = canonical.len() as u64;
                let call = subject(call, name);
                emit(TelemetryEvent::ToolCallCompleted { call, latency_ms, output_bytes, cached });
                if let Some(cut) = &done.truncated {
                    metrics::record_truncation(definition.name(), cut);
                }
                let result = ToolResult::done(name, done, metadata, latency_ms);
                Ok(result.with_model_text(definition.model_text()))
            }
            Err(failure) => {
                let outcome = match status_of(&failure, started) {
                    OutcomeStatus::Unknown => Some(FailedOutcome::Unknown),
                    OutcomeStatus::NotStarted => Some(FailedOutcome::NotStarted),
                    OutcomeStatus::Done | OutcomeStatus::Failed => None,
                };
                let failure = nudge::with_example(call, subject(call, name), &definition, failure);
                let mut result = self.failed(call, name, failure, metadata);
                if let Some(report) = &mut result.metadata.failure {
                    report.outcome = outcome;
                }
                Ok(result.with_model_text(definition.model_text()))
            }
        }
    }

    /// Records that a decided call was not started because the mode or the rules changed. The call then runs
    /// through the pipeline again.
    pub(crate) fn record_not_started(&self, call: &PipelineCall, recorded_permit: &RecordedPermit) {
        let outcome = LedgerOutcome {
            failure: Some(FailureKind::Cancelled),
            message: Some(
                "the mode or the rules changed before the tool was started; the call is judged again"
                    .to_owned(),
            ),
            facts: OutcomeFacts { stages: stages(call), ..OutcomeFacts::default() },
            ..LedgerOutcome::new(OutcomeStatus::NotStarted, call.started.elapsed())
        };
        // If this cannot be written, the next decision cannot be written either, and the call is refused for
        // that reason.
        if let Err(error) = self.ledger.conclude(recorded_permit, outcome) {
            tracing::error!(%error, "a call was not started, but that could not be recorded");
        }
    }

    fn failed(
        &self,
        call: &PipelineCall,
        name: &str,
        failure: Failure,
        metadata: ResultMetadata,
    ) -> ToolResult {
        self.tally.failed.fetch_add(1, Ordering::Relaxed);
        let (kind, fault, error) = (failure.kind, failure.fault(), failure.message.as_str());
        let latency_ms = call.latency_ms();
        emit(TelemetryEvent::ToolCallFailed { call: subject(call, name), kind, fault, error, latency_ms });
        ToolResult::failed(name, failure, metadata, latency_ms)
    }

    /// Records a panic in a stage. Before the decision is recorded, the call is refused. After that, the call
    /// has failed. An outcome that is already recorded stays the only one.
    pub(crate) fn record_crash(&self, call: &PipelineCall) -> ToolResult {
        let failure = internal_fault();
        if !call.is_decision_recorded() {
            let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, failure.message);
            return self.record_refusal(
                call,
                refusal
                    .with_detail("internal_fault")
                    .with_hint("nothing was run; see the daemon log for details"),
            );
        }
        if call.is_outcome_recorded() {
            return self.failed(call, &call.tool_name, failure, metadata(call));
        }
        let outcome = LedgerOutcome {
            failure: Some(failure.kind),
            message: Some(failure.message.clone()),
            ..LedgerOutcome::new(OutcomeStatus::Unknown, call.started.elapsed())
        };
        let concluded = RecordedOutcome { call: call.ledger_call(&call.tool_name), outcome };
        let (failure, recorded) = match self.ledger.append(&LedgerEntry::Outcome(concluded)) {
            Ok(_) => (failure, true),
            Err(error) => (unrecorded_failure::<()>(&Err(failure), &error), false),
        };
        self.failed(call, &call.tool_name, failure, ResultMetadata { recorded, ..metadata(call) })
    }
}

/// Start state of the tool, with the effect it could have.
#[derive(Clone, Copy)]
enum ToolStart {
    Yes(RecordedEffect),
    No,
}

fn outcome(
    ledger: &Ledger,
    latency: Duration,
    started: ToolStart,
    end: &Result<BoundedOutput, Failure>,
) -> LedgerOutcome {
    match end {
        Ok(BoundedOutput { output: done, canonical }) => LedgerOutcome {
            output_digest: Some(ledger.keyed_digest(canonical)),
            files_touched: done.files_touched.iter().map(|name| redacted(name)).collect(),
            truncated: done.truncated.clone(),
            usage: done.usage,
            ..LedgerOutcome::new(OutcomeStatus::Done, latency)
        },
        Err(failure) => LedgerOutcome {
            failure: Some(failure.kind),
            message: Some(redacted(&failure.message)),
            ..LedgerOutcome::new(status_of(failure, started), latency)
        },
    }
}

/// Status of a failed call. A changing call that timed out or was interrupted may still take effect or be
/// half done, so its status is unknown.
fn status_of(failure: &Failure, started: ToolStart) -> OutcomeStatus {
    match (failure.kind, started) {
        (_, ToolStart::No) => OutcomeStatus::NotStarted,
        (
            FailureKind::TimedOut
            | FailureKind::Cancelled
            | FailureKind::ClientGone
            | FailureKind::Interrupted,
            ToolStart::Yes(RecordedEffect::Changes),
        ) => OutcomeStatus::Unknown,
        (_, ToolStart::Yes(_)) => OutcomeStatus::Failed,
    }
}

/// Failure of a call whose outcome could not be recorded: the caller must not take it for done.
fn unrecorded_failure<T>(end: &Result<T, Failure>, error: &LedgerError) -> Failure {
    let verb = if end.is_ok() { "succeeded" } else { "failed" };
    Failure::new(FailureKind::Io, format!("the tool {verb}, but that could not be recorded: {error}"))
        .with_hint("its effect may have happened; check before trying again")
}

/// Data for the result of a call whose recording panicked. It is copied from the call beforehand and
/// formatted only if needed.
pub(crate) struct CrashReport {
    header: Arc<CallHeader>,
    tool_name: SharedText,
    snapshot: Arc<ConfigSnapshot>,
    started: Instant,
}

impl CrashReport {
    pub(crate) fn of(call: &PipelineCall) -> Self {
        CrashReport {
            header: Arc::clone(&call.header),
            tool_name: call.tool_name.clone(),
            snapshot: Arc::clone(&call.snapshot),
            started: call.started,
        }
    }

    /// Returns the result for a call whose recording panicked.
    pub(crate) fn crashed_result(self) -> ToolResult {
        let CallHeader { call_id, trace, mode, .. } = &*self.header;
        let metadata = ResultMetadata::new(*call_id, trace, *mode, self.snapshot.policy.shared_hash());
        let latency_ms = self.started.elapsed().as_secs_f64() * 1000.0;
        ToolResult::failed(&self.tool_name, internal_fault(), metadata, latency_ms)
    }
}

fn internal_fault() -> Failure {
    Failure::new(FailureKind::Crashed, "an internal fault in Sinew ended this call")
        .with_hint("the daemon keeps running; see its log for details")
}
