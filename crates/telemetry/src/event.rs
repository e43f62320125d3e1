//! The events of a call's life, each under one stable name, with typed fields.
//!
//! What an event may carry is fixed here: no argument value and no file content has a field, except the
//! arguments of `tool_call_started`, which are written only while content capture is on and redacted first.

mod emit;

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tool::{CallId, FailureKind, Mode, RefusalCode, RiskLevel, RuleRef, TraceContext};

use crate::settings::TelemetrySettings;

pub use emit::emit;
pub(crate) use emit::rule_place;

/// The `target` of every event made here; filter with `SINEW_LOG=sinew::event=debug`.
pub(crate) const TARGET: &str = "sinew::event";

/// Fields of our own events that hold JSON text and are written as JSON, not as a quoted string.
pub(crate) const STRUCTURED: [&str; 3] = ["arguments", "missing", "sensors"];

static CAPTURE_CONTENT: AtomicBool = AtomicBool::new(false);

/// Whether arguments may be written, redacted, beside their digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCapture {
    Off,
    On,
}

impl ContentCapture {
    pub(crate) fn of(settings: &TelemetrySettings) -> Self {
        if settings.capture_content { ContentCapture::On } else { ContentCapture::Off }
    }
}

pub(crate) fn set_content_capture(capture: ContentCapture) {
    CAPTURE_CONTENT.store(capture == ContentCapture::On, Ordering::Relaxed);
}

pub(crate) fn content_capture() -> ContentCapture {
    if CAPTURE_CONTENT.load(Ordering::Relaxed) { ContentCapture::On } else { ContentCapture::Off }
}

/// Whether arguments and results may be written, redacted, to events and spans. Who has to copy them first asks.
pub fn captures_content() -> bool {
    content_capture() == ContentCapture::On
}

/// The call an event is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The tool as found, or as named where none was found.
    pub tool: &'a str,
    /// The call.
    pub call_id: CallId,
    /// Its place in the trace.
    pub trace: &'a TraceContext,
    /// The mode it is judged in.
    pub mode: Mode,
    /// The worker session it belongs to.
    pub session: Option<&'a str>,
}

/// How a question to a human ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// A human said yes.
    Approved,
    /// A human said no.
    Denied,
    /// Nobody answered in time.
    TimedOut,
    /// The caller went away, or the daemon stopped.
    Withdrawn,
}

impl ApprovalDecision {
    /// The word in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalDecision::Approved => "approved",
            ApprovalDecision::Denied => "denied",
            ApprovalDecision::TimedOut => "timed_out",
            ApprovalDecision::Withdrawn => "withdrawn",
        }
    }
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A permitted call begins to run. A refused call is never announced as started.
    ToolCallStarted {
        /// The call.
        call: Subject<'a>,
        /// The digest of its arguments.
        arguments_digest: &'a str,
        /// The arguments as given, where they are captured ([`captures_content`]); written redacted.
        arguments: Option<&'a Value>,
    },
    /// The tool ran to its end.
    ToolCallCompleted {
        /// The call.
        call: Subject<'a>,
        /// From the first byte of the request.
        latency_ms: f64,
        /// The size of what it answered.
        output_bytes: u64,
    },
    /// The tool ran, or should have, and did not reach its end.
    ToolCallFailed {
        /// The call.
        call: Subject<'a>,
        /// What went wrong.
        kind: FailureKind,
        /// The failure's sentence.
        error: &'a str,
        /// From the first byte of the request.
        latency_ms: f64,
    },
    /// The call was refused.
    ToolCallBlocked {
        /// The call.
        call: Subject<'a>,
        /// Why, in one word.
        code: RefusalCode,
        /// Why, in a sentence.
        reason: &'a str,
        /// The rule that decided.
        rule: Option<&'a RuleRef>,
        /// From the first byte of the request.
        latency_ms: f64,
    },
    /// A worker session spent a hop on a call.
    WorkerInnerCall {
        /// The call.
        call: Subject<'a>,
        /// The hops used, this one included.
        hop: u32,
        /// The hops there are.
        hop_budget: u32,
    },
    /// The arguments of a call did not pass.
    ToolValidationFailed {
        /// The call.
        call: Subject<'a>,
        /// Why, in one word.
        code: RefusalCode,
        /// The required fields that were absent; names, never values.
        missing: &'a [String],
        /// The refusal's sentence.
        reason: &'a str,
    },
    /// A human has a call checked by its tool's schema alone.
    GuardrailSkipped {
        /// The call.
        call: Subject<'a>,
        /// Who.
        by: &'a str,
    },
    /// A failed call was answered with advice on how to call the tool.
    ToolValidationNudge {
        /// The call.
        call: Subject<'a>,
        /// What the tool complained of; cut to 200 characters.
        error: &'a str,
    },
    /// The arguments of a worker session's call did not pass.
    WorkerInnerValidationFail {
        /// The call.
        call: Subject<'a>,
        /// Why, in one word.
        code: RefusalCode,
        /// The required fields that were absent; names, never values.
        missing: &'a [String],
        /// The refusal's sentence.
        reason: &'a str,
    },
    /// A worker session has cost more than its cap.
    WorkerToolCostWarning {
        /// The call that went over.
        call: Subject<'a>,
        /// What the session has cost.
        cost: f64,
        /// What it may cost.
        cap: f64,
    },
    /// The operational mode changed.
    ModeTransition {
        /// The mode before.
        from: Mode,
        /// The mode now.
        to: Mode,
        /// Why.
        reason: &'a str,
        /// Who or what changed it.
        by: &'a str,
        /// What the sensors said.
        sensors: Option<&'a Value>,
    },
    /// A human is asked.
    ApprovalRequested {
        /// The call that waits.
        call: Subject<'a>,
        /// The question.
        approval_id: &'a str,
        /// The harm the tool can do.
        risk: RiskLevel,
        /// How long the question stands.
        timeout_ms: u64,
    },
    /// A question was answered, or ran out.
    ApprovalDecided {
        /// The call that waited.
        call: Subject<'a>,
        /// The question.
        approval_id: &'a str,
        /// The answer.
        decision: ApprovalDecision,
        /// Who answered.
        by: &'a str,
        /// How long it took.
        wait_ms: u64,
    },
}

impl Event<'_> {
    /// The stable name, `event` in the log and the event name in OTLP.
    pub fn name(&self) -> &'static str {
        match self {
            Event::ToolCallStarted { .. } => "tool_call_started",
            Event::ToolCallCompleted { .. } => "tool_call_completed",
            Event::ToolCallFailed { .. } => "tool_call_failed",
            Event::ToolCallBlocked { .. } => "tool_call_blocked",
            Event::WorkerInnerCall { .. } => "worker_inner_call",
            Event::ToolValidationFailed { .. } => "tool_validation_failed",
            Event::GuardrailSkipped { .. } => "guardrail_skipped",
            Event::ToolValidationNudge { .. } => "tool_validation_nudge",
            Event::WorkerInnerValidationFail { .. } => "worker_inner_validation_fail",
            Event::WorkerToolCostWarning { .. } => "worker_tool_cost_warning",
            Event::ModeTransition { .. } => "mode_transition",
            Event::ApprovalRequested { .. } => "approval_requested",
            Event::ApprovalDecided { .. } => "approval_decided",
        }
    }
}
