//! Span of one call and of its pipeline stages, timed as they happen.
//!
//! The ledger records the timings of every call. The spans are built from them at the end, and only if traces
//! are exported, so that without OTLP a stage costs two clock readings.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::KeyValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{FailureKind, Mode, RefusalCode, RuleRef, TraceContext};

use crate::conventions::{EXECUTE_TOOL, attribute};
use crate::event::{is_content_captured, rule_location};
use crate::otel::{self, ExportPipelines, FinishedCall};
use crate::{CallContext, metrics, redact};

/// Stage of the pipeline whose duration is recorded. The stages `admit` and `look up` are not timed: they only
/// read memory, unless the call has an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Check of the arguments.
    Check,
    /// Policy decision on what needs no file.
    Precheck,
    /// Opening of the paths the call names.
    Open,
    /// Policy decision on what was opened.
    Judge,
    /// Wait for operator approval.
    Approve,
    /// Wait for a run slot, if none was free.
    Reserve,
    /// Write of the decision to the ledger.
    RecordDecision,
    /// Run of the tool.
    Run,
    /// Preparation of the sandbox, the first part of the run.
    Confine,
    /// Write of the outcome to the ledger. It is in spans only: the record is written by then.
    RecordOutcome,
}

impl Stage {
    /// Returns the name used in records and as the name of the child span.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Check => "check",
            Stage::Precheck => "precheck",
            Stage::Open => "open",
            Stage::Judge => "judge",
            Stage::Approve => "approve",
            Stage::Reserve => "reserve",
            Stage::RecordDecision => "record_decision",
            Stage::Run => "run",
            Stage::Confine => "confine",
            Stage::RecordOutcome => "record_outcome",
        }
    }
}

/// Start and duration of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTiming {
    /// Stage.
    pub stage: Stage,
    /// Start in microseconds after the start of the call.
    pub start_us: u64,
    /// Duration in microseconds.
    pub duration_us: u64,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool completed.
    Done,
    /// The call was refused and did not run.
    Refused(RefusalCode),
    /// The tool did not complete.
    Failed(FailureKind),
}

impl CallOutcome {
    /// Returns the name used in metrics: `done`, `refused` or `failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            CallOutcome::Done => "done",
            CallOutcome::Refused(_) => "refused",
            CallOutcome::Failed(_) => "failed",
        }
    }

    /// Returns the value of `error.type` for a call that did not succeed.
    pub fn error_type(self) -> Option<&'static str> {
        match self {
            CallOutcome::Done => None,
            CallOutcome::Refused(code) => Some(code.as_str()),
            CallOutcome::Failed(kind) => Some(kind.as_str()),
        }
    }
}

/// Attribute added to the span of a call while it runs.
#[derive(Clone, Copy, Debug)]
pub enum SpanNote<'a> {
    /// Mode the call was judged in, if the mode changed since the start.
    Mode(Mode),
    /// Policy decision: `permit`, `ask` or `deny`.
    Decision(&'a str),
    /// Rule that decided.
    Rule(&'a RuleRef),
    /// Id of the approval request.
    Approval(&'a str),
    /// Sandbox tier of the run.
    Sandbox(&'a str),
    /// Arguments; recorded only while content capture is on, and redacted.
    Arguments(&'a Value),
    /// Result of the tool; recorded only while content capture is on, and redacted.
    Result(&'a Value),
}

/// Number of stages of a call without an approval.
const TYPICAL_STAGES: usize = 8;

/// Span of one call, from its first byte to its reply. A span that is dropped without `end` counts as
/// cancelled.
pub struct CallSpan {
    started: Instant,
    stages: Mutex<Vec<StageTiming>>,
    /// Data for the exporters; `None` if nothing is exported.
    exported: Option<Box<ExportedSpan>>,
}

struct ExportedSpan {
    pipelines: Arc<ExportPipelines>,
    tool: String,
    trace: TraceContext,
    started_at: SystemTime,
    attributes: Mutex<Vec<KeyValue>>,
}

impl std::fmt::Debug for CallSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallSpan").field("stages", &self.timings()).finish_non_exhaustive()
    }
}

impl CallSpan {
    /// Starts the span of a call.
    pub fn start(call: &CallContext<'_>) -> Self {
        let exported = otel::pipelines().map(|to| Box::new(ExportedSpan::new(to, call)));
        CallSpan { started: Instant::now(), stages: Mutex::new(Vec::with_capacity(TYPICAL_STAGES)), exported }
    }

    /// Starts the span of a call that is judged but never run: its stages are timed, and nothing is exported.
    pub fn unexported() -> Self {
        CallSpan { started: Instant::now(), stages: Mutex::new(Vec::new()), exported: None }
    }

    /// Starts a stage, which ends when the returned value is dropped.
    #[must_use = "the stage ends when this is dropped"]
    pub fn stage(&self, stage: Stage) -> StageSpan<'_> {
        StageSpan { call: self, stage, started: Instant::now() }
    }

    /// Records a stage that was timed elsewhere.
    pub fn record_stage(&self, stage: Stage, began: Instant, duration: Duration) {
        let start_us = micros(began.saturating_duration_since(self.started));
        let timing = StageTiming { stage, start_us, duration_us: micros(duration) };
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push(timing);
    }

    /// Adds an attribute to the span.
    pub fn add_note(&self, note: SpanNote<'_>) {
        if let Some(exported) = &self.exported {
            exported.add_note(note);
        }
    }

    /// Returns the time since the start of the call.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the finished stages in the order they ended.
    pub(crate) fn timings(&self) -> Vec<StageTiming> {
        self.with_timings(<[StageTiming]>::to_vec)
    }

    /// Passes the finished stages to `read` without copying them.
    pub fn with_timings<T>(&self, read: impl FnOnce(&[StageTiming]) -> T) -> T {
        read(&self.stages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the call: passes its span and measurements to the exporters, and returns the stages.
    pub fn end(mut self, outcome: CallOutcome) -> Vec<StageTiming> {
        let stages = std::mem::take(self.stages.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.export(outcome, &stages);
        stages
    }

    fn export(&mut self, outcome: CallOutcome, stages: &[StageTiming]) {
        if let Some(exported) = self.exported.take() {
            exported.finish(outcome, self.started.elapsed(), stages.to_vec());
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if self.exported.is_some() {
            let stages = self.timings();
            self.export(CallOutcome::Failed(FailureKind::Cancelled), &stages);
        }
    }
}

impl ExportedSpan {
    fn new(to: Arc<ExportPipelines>, call: &CallContext<'_>) -> Self {
        let mut attributes = vec![
            KeyValue::new(attribute::OPERATION_NAME, EXECUTE_TOOL),
            KeyValue::new(attribute::TOOL_TYPE, "function"),
            KeyValue::new(attribute::TOOL_CALL_ID, call.call_id.to_string()),
            KeyValue::new(attribute::MODE, call.mode.as_str()),
        ];
        attributes.extend(call.session.map(|session| redacted_attribute(attribute::SESSION, session)));
        ExportedSpan {
            pipelines: to,
            tool: call.tool.to_owned(),
            trace: call.trace.clone(),
            started_at: SystemTime::now(),
            attributes: Mutex::new(attributes),
        }
    }

    fn add_note(&self, note: SpanNote<'_>) {
        let captured = |name, value: &Value| {
            is_content_captured()
                .then(|| KeyValue::new(name, redact::shared().redact_value(value).to_string()))
        };
        let attribute = match note {
            SpanNote::Mode(mode) => Some(KeyValue::new(attribute::MODE, mode.as_str())),
            SpanNote::Decision(decision) => Some(redacted_attribute(attribute::POLICY_DECISION, decision)),
            SpanNote::Rule(rule) => Some(redacted_attribute(attribute::POLICY_RULE, &rule_location(rule))),
            SpanNote::Approval(id) => Some(redacted_attribute(attribute::APPROVAL_ID, id)),
            SpanNote::Sandbox(tier) => Some(redacted_attribute(attribute::SANDBOX_TIER, tier)),
            SpanNote::Arguments(arguments) => captured(attribute::TOOL_CALL_ARGUMENTS, arguments),
            SpanNote::Result(result) => captured(attribute::TOOL_CALL_RESULT, result),
        };
        if let Some(attribute) = attribute {
            let mut attributes = self.attributes.lock().unwrap_or_else(PoisonError::into_inner);
            attributes.retain(|known| known.key != attribute.key);
            attributes.push(attribute);
        }
    }

    fn finish(self, outcome: CallOutcome, duration: Duration, stages: Vec<StageTiming>) {
        metrics::record_call(&self.tool, outcome, duration);
        let Some(traces) = &self.pipelines.traces else { return };
        let mut attributes = self.attributes.into_inner().unwrap_or_else(PoisonError::into_inner);
        let tool = metrics::tool_label(&self.tool, outcome);
        attributes.push(KeyValue::new(attribute::TOOL_NAME, tool.clone()));
        attributes.push(KeyValue::new(attribute::OUTCOME, outcome.as_str()));
        let error = outcome.error_type();
        attributes.extend(error.map(|error| KeyValue::new(attribute::ERROR_TYPE, error)));
        let (trace, started_at) = (self.trace, self.started_at);
        traces.finish(FinishedCall { trace, tool, started_at, duration, attributes, error, stages });
    }
}

/// Creates an attribute from a text that may come from outside, redacted like a log field.
fn redacted_attribute(name: &'static str, value: &str) -> KeyValue {
    KeyValue::new(name, redact::shared().redact_text(value).into_owned())
}

/// Running stage.
#[derive(Debug)]
pub struct StageSpan<'a> {
    call: &'a CallSpan,
    stage: Stage,
    started: Instant,
}

impl Drop for StageSpan<'_> {
    fn drop(&mut self) {
        self.call.record_stage(self.stage, self.started, self.started.elapsed());
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
