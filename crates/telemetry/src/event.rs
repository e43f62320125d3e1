//! The events of a call's life, each under one stable name, with typed fields.
//!
//! What an event may carry is fixed here: no argument value and no file content has a field, except the
//! arguments of `tool_call_started`, which are written only while content capture is on and redacted first.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tool::{CallId, FailureKind, Fault, Mode, RefusalCode, RiskLevel, RuleRef, TraceContext};
use tracing::Level;

use crate::redact;
use crate::settings::TelemetrySettings;

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

impl Subject<'_> {
    /// A `tracing` span whose events, whatever crate logs them, carry the ids of this call.
    pub fn log_span(&self) -> tracing::Span {
        let (trace_id, span_id) = (self.trace.trace_id.as_str(), self.trace.span_id.as_str());
        tracing::info_span!(target: TARGET, "call", trace_id, span_id)
    }
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
        /// The arguments as given; written only while content capture is on, and redacted.
        arguments: &'a Value,
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
            Event::ToolValidationNudge { .. } => "tool_validation_nudge",
            Event::WorkerInnerValidationFail { .. } => "worker_inner_validation_fail",
            Event::WorkerToolCostWarning { .. } => "worker_tool_cost_warning",
            Event::ModeTransition { .. } => "mode_transition",
            Event::ApprovalRequested { .. } => "approval_requested",
            Event::ApprovalDecided { .. } => "approval_decided",
        }
    }
}

/// One `tracing` event with the fields every call's event has.
macro_rules! about_call {
    ($level:expr, $name:literal, $call:expr, $($field:tt)+) => {
        tracing::event!(
            name: $name, target: TARGET, $level,
            trace_id = $call.trace.trace_id.as_str(), span_id = $call.trace.span_id.as_str(),
            call_id = %$call.call_id, tool = $call.tool, mode = $call.mode.as_str(), session = $call.session,
            $($field)+
        )
    };
}

/// Writes an event to every configured place: the log, standard error, OTLP.
pub fn emit(event: Event<'_>) {
    match event {
        Event::ToolCallStarted { call, arguments_digest, arguments } => {
            let captured = captured(arguments);
            let arguments = captured.as_deref();
            about_call!(Level::INFO, "tool_call_started", call, arguments_digest, arguments);
        }
        Event::ToolCallCompleted { call, latency_ms, output_bytes } => {
            about_call!(Level::INFO, "tool_call_completed", call, latency_ms, output_bytes);
        }
        Event::ToolCallFailed { call, kind, error, latency_ms } => {
            let (kind, fault, retryable) = (kind.as_str(), fault_word(kind.fault()), kind.retryable());
            about_call!(Level::WARN, "tool_call_failed", call, kind, fault, retryable, error, latency_ms);
        }
        Event::ToolCallBlocked { call, code, reason, rule, latency_ms } => {
            let (code, place) = (code.as_str(), rule.map(rule_place));
            let rule = place.as_deref();
            about_call!(Level::WARN, "tool_call_blocked", call, code, reason, rule, latency_ms);
        }
        Event::WorkerInnerCall { call, hop, hop_budget } => {
            about_call!(Level::INFO, "worker_inner_call", call, hop, hop_budget);
        }
        Event::ToolValidationFailed { call, code, missing, reason } => {
            let (code, missing) = (code.as_str(), json!(missing).to_string());
            about_call!(Level::WARN, "tool_validation_failed", call, code, missing, reason);
        }
        Event::ToolValidationNudge { call, error } => {
            let error = opening(error);
            about_call!(Level::INFO, "tool_validation_nudge", call, error);
        }
        Event::WorkerInnerValidationFail { call, code, missing, reason } => {
            let (code, missing) = (code.as_str(), json!(missing).to_string());
            about_call!(Level::WARN, "worker_inner_validation_fail", call, code, missing, reason);
        }
        Event::WorkerToolCostWarning { call, cost, cap } => {
            about_call!(Level::WARN, "worker_tool_cost_warning", call, cost, cap);
        }
        Event::ModeTransition { from, to, reason, by, sensors } => {
            let (from, to, sensors) = (from.as_str(), to.as_str(), sensors.map(Value::to_string));
            let sensors = sensors.as_deref();
            tracing::event!(name: "mode_transition", target: TARGET, Level::WARN, from, to, reason, by, sensors);
        }
        Event::ApprovalRequested { call, approval_id, risk, timeout_ms } => {
            let risk = risk.as_str();
            about_call!(Level::INFO, "approval_requested", call, approval_id, risk, timeout_ms);
        }
        Event::ApprovalDecided { call, approval_id, decision, by, wait_ms } => {
            let decision = decision.as_str();
            about_call!(Level::INFO, "approval_decided", call, approval_id, decision, by, wait_ms);
        }
    }
}

fn captured(arguments: &Value) -> Option<String> {
    match content_capture() {
        ContentCapture::Off => None,
        ContentCapture::On => Some(redact::shared().redact_value(arguments).to_string()),
    }
}

/// The first 200 characters, redacted before the cut: half a secret is no longer recognised as one.
fn opening(error: &str) -> String {
    redact::shared().redact_text(error).chars().take(200).collect()
}

fn fault_word(fault: Fault) -> &'static str {
    match fault {
        Fault::Caller => "caller",
        Fault::Tool => "tool",
        Fault::Machine => "machine",
    }
}

pub(crate) fn rule_place(rule: &RuleRef) -> String {
    if rule.line == 0 { rule.id.clone() } else { format!("{}:{} {}", rule.file, rule.line, rule.id) }
}
