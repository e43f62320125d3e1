//! The span of one call and of the stages of its road, timed as they happen.
//!
//! The timings go to the ledger with every call; the spans are made from them at the end, and only where traces
//! are exported, so that without OTLP a call pays for two clock readings a stage.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::KeyValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{FailureKind, Mode, RefusalCode, RuleRef, TraceContext};

use crate::conventions::{EXECUTE_TOOL, attribute};
use crate::event::{ContentCapture, content_capture, rule_place};
use crate::otel::{self, FinishedCall, Pipelines};
use crate::{Subject, metrics, redact};

/// A stage of the road that takes time worth seeing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The arguments are checked.
    Check,
    /// What the call names is opened.
    Open,
    /// The policy judges.
    Judge,
    /// A human is asked.
    ApprovalWait,
    /// The confined process is prepared.
    Confine,
    /// The tool runs.
    Run,
    /// The ledger writes.
    Record,
}

impl Stage {
    /// The word in records; the name of the child span.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Check => "check",
            Stage::Open => "open",
            Stage::Judge => "judge",
            Stage::ApprovalWait => "approval_wait",
            Stage::Confine => "confine",
            Stage::Run => "run",
            Stage::Record => "record",
        }
    }
}

/// When a stage began, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTiming {
    /// The stage.
    pub stage: Stage,
    /// Microseconds from the start of the call.
    pub start_us: u64,
    /// Microseconds.
    pub duration_us: u64,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The tool ran to its end.
    Done,
    /// The call was not run.
    Refused(RefusalCode),
    /// The tool did not reach its end.
    Failed(FailureKind),
}

impl Outcome {
    /// The word in metrics: `done`, `refused` or `failed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Refused(_) => "refused",
            Outcome::Failed(_) => "failed",
        }
    }

    /// The word in `error.type`, for a call that did not succeed.
    pub fn error_type(self) -> Option<&'static str> {
        match self {
            Outcome::Done => None,
            Outcome::Refused(code) => Some(code.as_str()),
            Outcome::Failed(kind) => Some(kind.as_str()),
        }
    }
}

/// A fact learned on the way.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// The call was judged in this mode, where it is another than at the start.
    Mode(Mode),
    /// What the policy said: `permit`, `ask` or `deny`.
    Decision(&'a str),
    /// The rule that decided.
    Rule(&'a RuleRef),
    /// The question a human was asked.
    Approval(&'a str),
    /// How confined the tool ran.
    Sandbox(&'a str),
    /// The arguments; kept only while content capture is on, and redacted.
    Arguments(&'a Value),
    /// What the tool answered; kept only while content capture is on, and redacted.
    Result(&'a Value),
}

/// As many as a call has that nobody is asked about.
const USUAL_STAGES: usize = 8;

/// One call, from its first byte to its reply. A span that is dropped without an end counts as cancelled.
pub struct CallSpan {
    started: Instant,
    stages: Mutex<Vec<StageTiming>>,
    /// What only an exporter needs; none where nothing is exported.
    exported: Option<Box<Exported>>,
}

struct Exported {
    to: Arc<Pipelines>,
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
    /// The call begins now.
    pub fn start(call: &Subject<'_>) -> Self {
        let exported = otel::pipelines().map(|to| Box::new(Exported::new(to, call)));
        CallSpan { started: Instant::now(), stages: Mutex::new(Vec::with_capacity(USUAL_STAGES)), exported }
    }

    /// The same for a call that is judged and never run: its stages are timed, and no exporter hears of it.
    pub fn unexported() -> Self {
        CallSpan { started: Instant::now(), stages: Mutex::new(Vec::new()), exported: None }
    }

    /// A stage begins now, and ends when the value is dropped.
    #[must_use = "the stage ends when this is dropped"]
    pub fn stage(&self, stage: Stage) -> StageSpan<'_> {
        StageSpan { call: self, stage, started: Instant::now() }
    }

    /// A stage that was timed elsewhere: it began then and took so long.
    pub fn staged(&self, stage: Stage, began: Instant, duration: Duration) {
        let start_us = micros(began.saturating_duration_since(self.started));
        let timing = StageTiming { stage, start_us, duration_us: micros(duration) };
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push(timing);
    }

    /// Adds a fact to the span.
    pub fn note(&self, note: Note<'_>) {
        if let Some(exported) = &self.exported {
            exported.note(note);
        }
    }

    /// How long the call has taken.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The stages that have ended, in the order they ended.
    pub(crate) fn timings(&self) -> Vec<StageTiming> {
        self.with_timings(<[StageTiming]>::to_vec)
    }

    /// Looks at the stages that have ended where they are.
    pub fn with_timings<T>(&self, look: impl FnOnce(&[StageTiming]) -> T) -> T {
        look(&self.stages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The call ends now: its span and measurements are handed to the exporters. Gives back the stages.
    pub fn end(mut self, outcome: Outcome) -> Vec<StageTiming> {
        let stages = std::mem::take(self.stages.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.export(outcome, &stages);
        stages
    }

    fn export(&mut self, outcome: Outcome, stages: &[StageTiming]) {
        if let Some(exported) = self.exported.take() {
            exported.finish(outcome, self.started.elapsed(), stages.to_vec());
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if self.exported.is_some() {
            let stages = self.timings();
            self.export(Outcome::Failed(FailureKind::Cancelled), &stages);
        }
    }
}

impl Exported {
    fn new(to: Arc<Pipelines>, call: &Subject<'_>) -> Self {
        let mut attributes = vec![
            KeyValue::new(attribute::OPERATION_NAME, EXECUTE_TOOL),
            KeyValue::new(attribute::TOOL_TYPE, "function"),
            KeyValue::new(attribute::TOOL_CALL_ID, call.call_id.to_string()),
            KeyValue::new(attribute::MODE, call.mode.as_str()),
        ];
        attributes.extend(call.session.map(|session| text(attribute::SESSION, session)));
        Exported {
            to,
            tool: call.tool.to_owned(),
            trace: call.trace.clone(),
            started_at: SystemTime::now(),
            attributes: Mutex::new(attributes),
        }
    }

    fn note(&self, note: Note<'_>) {
        let captured = |name, value: &Value| match content_capture() {
            ContentCapture::Off => None,
            ContentCapture::On => Some(KeyValue::new(name, redact::shared().redact_value(value).to_string())),
        };
        let attribute = match note {
            Note::Mode(mode) => Some(KeyValue::new(attribute::MODE, mode.as_str())),
            Note::Decision(decision) => Some(text(attribute::POLICY_DECISION, decision)),
            Note::Rule(rule) => Some(text(attribute::POLICY_RULE, &rule_place(rule))),
            Note::Approval(id) => Some(text(attribute::APPROVAL_ID, id)),
            Note::Sandbox(tier) => Some(text(attribute::SANDBOX_TIER, tier)),
            Note::Arguments(arguments) => captured(attribute::TOOL_CALL_ARGUMENTS, arguments),
            Note::Result(result) => captured(attribute::TOOL_CALL_RESULT, result),
        };
        if let Some(attribute) = attribute {
            let mut attributes = self.attributes.lock().unwrap_or_else(PoisonError::into_inner);
            attributes.retain(|known| known.key != attribute.key);
            attributes.push(attribute);
        }
    }

    fn finish(self, outcome: Outcome, duration: Duration, stages: Vec<StageTiming>) {
        metrics::call(&self.tool, outcome, duration);
        let Some(traces) = &self.to.traces else { return };
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

/// A text that may come from outside: redacted like a field of the log.
fn text(name: &'static str, value: &str) -> KeyValue {
    KeyValue::new(name, redact::shared().redact_text(value).into_owned())
}

/// A stage that is under way.
#[derive(Debug)]
pub struct StageSpan<'a> {
    call: &'a CallSpan,
    stage: Stage,
    started: Instant,
}

impl Drop for StageSpan<'_> {
    fn drop(&mut self) {
        self.call.staged(self.stage, self.started, self.started.elapsed());
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
