//! Events of calls, each with a stable name and typed fields.
//!
//! The fields an event may carry are fixed here. No field holds an argument value or file content, except the
//! arguments of `tool_call_started`, which are written only while content capture is on, and redacted.

mod emit;

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tool::{CallId, FailureKind, FaultParty, Mode, RefusalCode, RiskLevel, RuleRef, TraceContext};

use crate::settings::TelemetrySettings;

pub use emit::emit;
pub(crate) use emit::rule_location;

/// `tracing` target of every event of this module; filter with `SINEW_LOG=sinew::event=debug`.
pub(crate) const EVENT_TARGET: &str = "sinew::event";

/// Fields of these events that hold JSON text and are written as JSON, not as a quoted string.
pub(crate) const JSON_FIELDS: [&str; 3] = ["arguments", "missing", "sensors"];

static CAPTURE_CONTENT: AtomicBool = AtomicBool::new(false);

/// Events of a call that ran as intended, written to the log only if `log.calls` is `all`.
const ROUTINE_EVENTS: [&str; 3] = ["tool_call_started", "tool_call_completed", "worker_inner_call"];

/// Returns true for an event of a call that ran as intended.
pub(crate) fn is_routine(event: &tracing::Metadata<'_>) -> bool {
    event.target() == EVENT_TARGET && ROUTINE_EVENTS.contains(&event.name())
}

/// Applies the setting that decides if redacted arguments are written next to their digest.
pub(crate) fn set_content_capture(settings: &TelemetrySettings) {
    CAPTURE_CONTENT.store(settings.capture_content, Ordering::Relaxed);
}

/// Returns true if redacted arguments and results may be written to events and spans. Callers that would have
/// to copy them check this first.
pub fn is_content_captured() -> bool {
    CAPTURE_CONTENT.load(Ordering::Relaxed)
}

/// Identity of the call that an event or span is about.
#[derive(Clone, Copy, Debug)]
pub struct CallContext<'a> {
    /// Name of the tool as registered, or as the caller wrote it if no tool was found.
    pub tool: &'a str,
    /// Id of the call.
    pub call_id: CallId,
    /// Trace context of the call.
    pub trace: &'a TraceContext,
    /// Mode in which the call is judged.
    pub mode: Mode,
    /// Worker session of the call, if any.
    pub session: Option<&'a str>,
}

/// Outcome of an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The operator approved the call.
    Approved,
    /// The operator denied the call.
    Denied,
    /// The request expired before a decision.
    TimedOut,
    /// The caller disconnected, or the daemon stopped.
    Withdrawn,
}

impl ApprovalDecision {
    /// Returns the name used in records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalDecision::Approved => "approved",
            ApprovalDecision::Denied => "denied",
            ApprovalDecision::TimedOut => "timed_out",
            ApprovalDecision::Withdrawn => "withdrawn",
        }
    }
}

/// Event to be logged and exported.
#[derive(Clone, Copy, Debug)]
pub enum TelemetryEvent<'a> {
    /// A permitted call starts to run. A refused call never has this event.
    ToolCallStarted {
        /// Call of the event.
        call: CallContext<'a>,
        /// Digest of the arguments.
        arguments_digest: &'a str,
        /// Arguments as given, if content capture is on (`is_content_captured`); they are written redacted.
        arguments: Option<&'a Value>,
    },
    /// The tool completed.
    ToolCallCompleted {
        /// Call of the event.
        call: CallContext<'a>,
        /// Time since the first byte of the request, in milliseconds.
        latency_ms: f64,
        /// Size of the output in bytes.
        output_bytes: u64,
        /// True if the result of an earlier call was returned and the tool did not run.
        cached: bool,
    },
    /// The tool did not start or did not complete.
    ToolCallFailed {
        /// Call of the event.
        call: CallContext<'a>,
        /// Kind of failure.
        kind: FailureKind,
        /// Party responsible for the failure.
        fault: FaultParty,
        /// Message of the failure.
        error: &'a str,
        /// Time since the first byte of the request, in milliseconds.
        latency_ms: f64,
    },
    /// The call was refused.
    ToolCallBlocked {
        /// Call of the event.
        call: CallContext<'a>,
        /// Refusal code.
        code: RefusalCode,
        /// Reason of the refusal.
        reason: &'a str,
        /// Rule that decided.
        rule: Option<&'a RuleRef>,
        /// Time since the first byte of the request, in milliseconds.
        latency_ms: f64,
    },
    /// A worker session used a hop for a call.
    WorkerInnerCall {
        /// Call of the event.
        call: CallContext<'a>,
        /// Number of hops used, including this one.
        hop: u32,
        /// Hop budget of the session.
        hop_budget: u32,
    },
    /// The arguments of a call failed validation.
    ToolValidationFailed {
        /// Call of the event.
        call: CallContext<'a>,
        /// Refusal code.
        code: RefusalCode,
        /// Names of the missing required fields, never values.
        missing: &'a [String],
        /// Reason of the refusal.
        reason: &'a str,
    },
    /// The operator skipped the curated map for a call; only the tool's schema was checked.
    GuardrailSkipped {
        /// Call of the event.
        call: CallContext<'a>,
        /// Person who requested it.
        by: &'a str,
    },
    /// The reply to a failed call includes advice on how to call the tool.
    ToolValidationNudge {
        /// Call of the event.
        call: CallContext<'a>,
        /// Error of the tool, redacted and cut to 200 characters.
        error: &'a str,
    },
    /// The arguments of a call in a worker session failed validation.
    WorkerInnerValidationFail {
        /// Call of the event.
        call: CallContext<'a>,
        /// Refusal code.
        code: RefusalCode,
        /// Names of the missing required fields, never values.
        missing: &'a [String],
        /// Reason of the refusal.
        reason: &'a str,
    },
    /// A worker session exceeded its cost cap.
    WorkerToolCostWarning {
        /// Call that exceeded the cap.
        call: CallContext<'a>,
        /// Cost of the session so far.
        cost: f64,
        /// Cost cap of the session.
        cap: f64,
    },
    /// The operational mode changed.
    ModeTransition {
        /// Previous mode.
        from: Mode,
        /// New mode.
        to: Mode,
        /// Reason of the change.
        reason: &'a str,
        /// Person or component that changed the mode.
        by: &'a str,
        /// Sensor readings, if a sensor caused the change.
        sensors: Option<&'a Value>,
    },
    /// The size limit of the ledger removed young records, or reads are refused because the limit is near.
    LedgerPressure {
        /// Segments with records younger than the minimum age that were removed.
        removed_segments: u64,
        /// True if reads are refused to save the remaining space for records of changes.
        reads_refused: bool,
        /// The size of the ledger.
        bytes: u64,
        /// Its limit.
        max_bytes: u64,
    },
    /// A caller was suspended, because it alone caused the refusals for which the mode would have changed.
    CallerSuspended {
        /// Id of the caller, for `sinew callers resume`.
        caller: &'a str,
        /// Name the client gives itself.
        client: Option<&'a str>,
        /// Rule and measured values.
        reason: &'a str,
        /// Duration of the suspension.
        seconds: u64,
    },
    /// A manifest, or a tool of one, could not be loaded. The rest of the configuration is in effect.
    ManifestRejected {
        /// Manifest file.
        file: &'a str,
        /// Line in the file; 0 if the problem has none.
        line: u64,
        /// Diagnostic code.
        code: &'a str,
        /// Description of the problem.
        message: &'a str,
    },
    /// A call waits for operator approval.
    ApprovalRequested {
        /// Call that waits.
        call: CallContext<'a>,
        /// Id of the approval request.
        approval_id: &'a str,
        /// Risk level of the tool.
        risk: RiskLevel,
        /// Time until the request expires, in milliseconds.
        timeout_ms: u64,
    },
    /// An approval request was decided, expired or was withdrawn.
    ApprovalDecided {
        /// Call that waited.
        call: CallContext<'a>,
        /// Id of the approval request.
        approval_id: &'a str,
        /// Outcome of the request.
        decision: ApprovalDecision,
        /// Person who decided.
        by: &'a str,
        /// Waiting time in milliseconds.
        wait_ms: u64,
    },
}

impl TelemetryEvent<'_> {
    /// Returns the stable name: `event` in the log, and the event name in OTLP.
    pub fn name(&self) -> &'static str {
        match self {
            TelemetryEvent::ToolCallStarted { .. } => "tool_call_started",
            TelemetryEvent::ToolCallCompleted { .. } => "tool_call_completed",
            TelemetryEvent::ToolCallFailed { .. } => "tool_call_failed",
            TelemetryEvent::ToolCallBlocked { .. } => "tool_call_blocked",
            TelemetryEvent::WorkerInnerCall { .. } => "worker_inner_call",
            TelemetryEvent::ToolValidationFailed { .. } => "tool_validation_failed",
            TelemetryEvent::GuardrailSkipped { .. } => "guardrail_skipped",
            TelemetryEvent::ToolValidationNudge { .. } => "tool_validation_nudge",
            TelemetryEvent::WorkerInnerValidationFail { .. } => "worker_inner_validation_fail",
            TelemetryEvent::WorkerToolCostWarning { .. } => "worker_tool_cost_warning",
            TelemetryEvent::ModeTransition { .. } => "mode_transition",
            TelemetryEvent::LedgerPressure { .. } => "ledger_pressure",
            TelemetryEvent::CallerSuspended { .. } => "caller_suspended",
            TelemetryEvent::ManifestRejected { .. } => "manifest_rejected",
            TelemetryEvent::ApprovalRequested { .. } => "approval_requested",
            TelemetryEvent::ApprovalDecided { .. } => "approval_decided",
        }
    }
}
