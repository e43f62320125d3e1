//! The span of one call and of the stages of its road, timed as they happen.
//!
//! The timings go to the ledger with every call; the spans are made from them at the end, and only where traces
//! are exported, so that without OTLP a call pays for two clock readings a stage.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{FailureKind, Mode, RefusalCode, RuleRef};

use crate::Subject;

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
}

/// One call, from its first byte to its reply.
#[derive(Debug)]
pub struct CallSpan {
    started: Instant,
    stages: Mutex<Vec<StageTiming>>,
}

impl CallSpan {
    /// The call begins now.
    pub fn start(_call: &Subject<'_>) -> Self {
        CallSpan { started: Instant::now(), stages: Mutex::new(Vec::new()) }
    }

    /// A stage begins now, and ends when the value is dropped.
    #[must_use = "the stage ends when this is dropped"]
    pub fn stage(&self, stage: Stage) -> StageSpan<'_> {
        StageSpan { call: self, stage, started: Instant::now() }
    }

    /// Adds a fact to the span.
    pub fn note(&self, _note: Note<'_>) {}

    /// How long the call has taken.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// The stages that have ended, in the order they ended.
    pub fn timings(&self) -> Vec<StageTiming> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The call ends now. Gives back the stages. A span that is dropped instead counts as cancelled.
    pub fn end(self, _outcome: Outcome) -> Vec<StageTiming> {
        self.timings()
    }
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
        let timing = StageTiming {
            stage: self.stage,
            start_us: micros(self.started.saturating_duration_since(self.call.started)),
            duration_us: micros(self.started.elapsed()),
        };
        self.call.stages.lock().unwrap_or_else(PoisonError::into_inner).push(timing);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
