//! Call request as received from an endpoint, and the call state that the pipeline carries.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use approvals::sessions::WorkerSession;
use approvals::{ApprovalMode, ApprovalRef};
use governance::{Denial, RateCounts, Situation, Workspaces};
use ledger::{CallHeader, Ledger};
use serde_json::{Value, json};
use telemetry::{CallContext, CallSpan, Stage, redact};
use tokio_util::sync::CancellationToken;
use tool::caller::CallerKey;
use tool::text::SharedText;
use tool::{
    Arguments, CallId, Caller, Mode, Progress, Refusal, RefusalCode, ToolDefinition, TraceContext, canonical,
};

use crate::ConfigSnapshot;
use crate::calls::{CallTracker, ConnectionLoss, StopRequest, StoppedBy};
use crate::idempotency::KeyClaim;

/// One call as parsed by an endpoint. None of its content is checked yet.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// Tool name as the caller spelled it.
    pub tool_name: String,
    /// Arguments; any JSON value.
    pub arguments: Value,
    /// Caller, as identified by the endpoint.
    pub caller: Caller,
    /// Trace context of the call.
    pub trace: TraceContext,
    /// Total time the caller will wait. It can only shorten the timeout that policy allows.
    pub deadline: Option<Duration>,
    /// Base for relative paths. It grants no additional access.
    pub cwd: Option<PathBuf>,
    /// Receiver of progress notifications.
    pub progress: Progress,
    /// Time the request arrived.
    pub started: Instant,
    /// Use of the curated map for this call.
    pub curated_map: CuratedMapCheck,
    /// Idempotency key given by the caller.
    pub idempotency_key: Option<String>,
    /// Cancelled when the caller cancels the call.
    pub cancellation: CancellationToken,
    /// Behaviour when operator approval is required.
    pub approval_mode: ApprovalMode,
    /// Id of an approval that the caller presents.
    pub approval_id: Option<String>,
    /// Effect of a lost connection on the call.
    pub connection_loss: ConnectionLoss,
}

/// Selects if a call is checked against the curated map in addition to the tool's schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuratedMapCheck {
    /// The curated map is checked.
    #[default]
    Applied,
    /// The operator skips the curated map to send a call unchanged. An event and the ledger record that.
    Skipped,
}

/// Origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOrigin {
    /// The caller, through an endpoint.
    Caller,
    /// A tool that runs for its caller and already holds a run slot.
    Tool,
}

/// One call in the pipeline: its identity and the configuration snapshot that judges it.
pub(crate) struct PipelineCall {
    /// Identity of the call: id, tool, mode, caller and trace. Shared with the list of active calls and with
    /// every ledger record of the call.
    pub(crate) header: Arc<CallHeader>,
    /// Identity that limits are counted by.
    pub(crate) caller_key: CallerKey,
    /// Tool name as the caller spelled it.
    pub(crate) tool_name: SharedText,
    pub(crate) origin: CallOrigin,
    pub(crate) started: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Digest that replaces the arguments where they must not appear.
    pub(crate) arguments_digest: SharedText,
    /// Snapshot for the whole pass through the pipeline; a reload meanwhile does not change it.
    pub(crate) snapshot: Arc<ConfigSnapshot>,
    /// Snapshot from which `snapshot` is derived, for a call that a recording permits.
    pub(crate) recorded_from: Option<Arc<ConfigSnapshot>>,
    pub(crate) workspaces: Workspaces,
    pub(crate) progress: Progress,
    pub(crate) span: CallSpan,
    /// State in the list of active calls, and the stop request.
    pub(crate) tracker: Arc<CallTracker>,
    pub(crate) curated_map: CuratedMapCheck,
    /// Idempotency key given by the caller.
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// Exclusive claim on that key, held until the outcome is recorded.
    pub(crate) key_claim: OnceLock<KeyClaim>,
    /// Worker session that admitted the call.
    pub(crate) worker_session: OnceLock<Arc<WorkerSession>>,
    /// Facts reported by the host, for a host call that is only judged.
    pub(crate) host_facts: Option<Value>,
    /// Facts of the decision that denied the call.
    denial_facts: OnceLock<Value>,
    decision_recorded: AtomicBool,
    outcome_recorded: AtomicBool,
    pub(crate) approval_mode: ApprovalMode,
    /// Approval that the call refers to, once there is one.
    pub(crate) approval_ref: Option<ApprovalRef>,
    /// Arguments that the operator put in place of the original ones.
    pub(crate) edited_arguments: Option<Arguments>,
}

impl PipelineCall {
    /// Splits a request into the call and its arguments, and starts the call's span.
    pub(crate) fn receive(
        request: CallRequest,
        ledger: &Ledger,
        snapshot: Arc<ConfigSnapshot>,
        mode: Mode,
    ) -> (PipelineCall, Value) {
        let id = CallId::fresh();
        let span = CallSpan::start(&CallContext {
            tool: &request.tool_name,
            call_id: id,
            trace: &request.trace,
            mode,
            session: request.caller.session.as_deref(),
        });
        Self::with_span(request, Some(ledger), snapshot, mode, (id, span))
    }

    /// Like `receive`, for a call that is only judged: its span is not exported.
    pub(crate) fn judge_only(
        request: CallRequest,
        ledger: &Ledger,
        snapshot: Arc<ConfigSnapshot>,
        mode: Mode,
    ) -> (PipelineCall, Value) {
        Self::with_span(request, Some(ledger), snapshot, mode, (CallId::fresh(), CallSpan::unexported()))
    }

    /// Like `judge_only`, for a call that is never recorded: it needs no ledger.
    pub(crate) fn unrecorded(
        request: CallRequest,
        snapshot: Arc<ConfigSnapshot>,
        mode: Mode,
    ) -> (PipelineCall, Value) {
        Self::with_span(request, None, snapshot, mode, (CallId::fresh(), CallSpan::unexported()))
    }

    fn with_span(
        mut request: CallRequest,
        ledger: Option<&Ledger>,
        snapshot: Arc<ConfigSnapshot>,
        mode: Mode,
        (id, span): (CallId, CallSpan),
    ) -> (PipelineCall, Value) {
        let workspaces = snapshot.workspaces.with_base(request.cwd.as_deref());
        let tool = recordable_tool_name(&snapshot, &request.tool_name);
        // The client name is normalised once, before it is compared or stored. A name that is cut in one
        // place and whole in another would count as two callers.
        request.caller = redact_client_name(request.caller);
        let key = match (ledger, &request.idempotency_key) {
            (Some(ledger), Some(key)) => Some(IdempotencyKey::of(key, &request, ledger)),
            _ => None,
        };
        let tool_name = if tool == *request.tool_name { tool.clone() } else { request.tool_name.into() };
        let header = Arc::new(CallHeader {
            call_id: id,
            tool: tool.to_string(),
            mode,
            caller: Arc::new(request.caller),
            trace: request.trace,
        });
        let stop = StopRequest::new(request.cancellation);
        let call = PipelineCall {
            tool_name,
            tracker: CallTracker::new(Arc::clone(&header), request.started, stop, request.connection_loss),
            caller_key: header.caller.key(),
            header,
            span,
            idempotency_key: key,
            key_claim: OnceLock::new(),
            curated_map: request.curated_map,
            worker_session: OnceLock::new(),
            host_facts: None,
            denial_facts: OnceLock::new(),
            decision_recorded: AtomicBool::new(false),
            outcome_recorded: AtomicBool::new(false),
            origin: CallOrigin::Caller,
            approval_mode: request.approval_mode,
            approval_ref: request.approval_id.map(|id| ApprovalRef { id, is_own: false }),
            edited_arguments: None,
            progress: request.progress,
            started: request.started,
            deadline: request.deadline.and_then(|wait| request.started.checked_add(wait)),
            arguments_digest: ledger.map_or_else(SharedText::default, |ledger| {
                ledger.keyed_digest(&canonical::bytes(&request.arguments)).into()
            }),
            snapshot,
            recorded_from: None,
            workspaces,
        };
        (call, request.arguments)
    }

    /// Sets the origin of the call.
    pub(crate) fn with_origin(self, origin: CallOrigin) -> PipelineCall {
        PipelineCall { origin, ..self }
    }

    /// Attaches the host's facts, which are recorded with a refusal.
    pub(crate) fn with_host_facts(self, facts: Value) -> PipelineCall {
        PipelineCall { host_facts: Some(facts), ..self }
    }

    /// Moves the call to the current snapshot and mode, to be judged again.
    pub(crate) fn with_snapshot(
        self,
        snapshot: Arc<ConfigSnapshot>,
        mode: Mode,
        approval_ref: Option<ApprovalRef>,
    ) -> PipelineCall {
        let workspaces = snapshot.workspaces.with_base(self.workspaces.base());
        // The previous decision, if one was recorded, also has its outcome in the ledger.
        PipelineCall {
            header: Arc::new(CallHeader { mode, ..CallHeader::clone(&self.header) }),
            workspaces,
            snapshot,
            recorded_from: None,
            approval_ref,
            decision_recorded: AtomicBool::new(false),
            ..self
        }
    }

    /// Moves the call to the snapshot of a recording, to be judged again.
    pub(crate) fn with_recording(self, snapshot: Arc<ConfigSnapshot>) -> PipelineCall {
        let workspaces = snapshot.workspaces.with_base(self.workspaces.base());
        PipelineCall {
            recorded_from: Some(self.snapshot),
            workspaces,
            snapshot,
            denial_facts: OnceLock::new(),
            decision_recorded: AtomicBool::new(false),
            ..self
        }
    }

    /// Returns true if the call is judged by the rules of a recording.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded_from.is_some()
    }

    /// Restores the facts of an earlier denial.
    pub(crate) fn with_denial_facts(self, facts: Option<Value>) -> PipelineCall {
        PipelineCall { denial_facts: facts.map(OnceLock::from).unwrap_or_default(), ..self }
    }

    /// Replaces the arguments by those the operator edited.
    pub(crate) fn with_edited_arguments(self, ledger: &Ledger, arguments: &Arguments) -> PipelineCall {
        let digest = ledger.keyed_digest(&canonical::bytes(&Value::Object(arguments.clone())));
        PipelineCall { arguments_digest: digest.into(), edited_arguments: Some(arguments.clone()), ..self }
    }

    /// Awaits a stage until the caller's deadline passes or the call is stopped.
    pub(crate) async fn within_deadline<T>(&self, part: impl Future<Output = T>) -> Result<T, Box<Refusal>> {
        let part = self.unless_stopped(part);
        let Some(deadline) = self.deadline else { return part.await };
        tokio::time::timeout_at(deadline.into(), part).await.unwrap_or_else(|_| {
            let reason = "the deadline passed before the tool was started";
            let refusal =
                Refusal::new(&self.tool_name, RefusalCode::Busy, reason).with_detail("deadline_passed");
            Err(Box::new(refusal.with_hint("nothing was run; allow more time")))
        })
    }

    /// Awaits a stage unless the call is stopped. The tool must not have been started yet.
    pub(crate) async fn unless_stopped<T>(&self, part: impl Future<Output = T>) -> Result<T, Box<Refusal>> {
        tokio::select! {
            biased;
            done = part => Ok(done),
            by = self.tracker.stop().wait() => Err(by.refusal(&self.tool_name, self.header.mode)),
        }
    }

    /// Originator of the stop request, if there is one.
    pub(crate) fn stopped_by(&self) -> Option<StoppedBy> {
        self.tracker.stop().requested_by()
    }

    /// Keeps the decision facts for the ledger record of the refusal. The caller does not see them.
    pub(crate) fn keep_denial_facts(&self, facts: &Value) {
        // The first denial is the one that refuses the call.
        let _ = self.denial_facts.set(redact::shared().redact_value(facts));
    }

    /// Turns a denial into a refusal and keeps its decision facts.
    pub(crate) fn refusal_for(&self, denial: Denial) -> Box<Refusal> {
        self.keep_denial_facts(denial.facts());
        denial.into()
    }

    /// Names the tool in a refusal as the caller spelled it.
    pub(crate) fn as_typed(&self, refusal: Box<Refusal>) -> Box<Refusal> {
        Box::new(Refusal { tool: self.tool_name.to_string(), ..*refusal })
    }

    /// Decision facts of the denial, if the call was denied.
    pub(crate) fn denial_facts(&self) -> Option<&Value> {
        self.denial_facts.get()
    }

    /// Marks the decision as recorded. From here on the ledger needs an outcome.
    pub(crate) fn mark_decision_recorded(&self) {
        self.decision_recorded.store(true, Ordering::Release);
    }

    /// Returns true if the decision is recorded in the ledger.
    pub(crate) fn is_decision_recorded(&self) -> bool {
        self.decision_recorded.load(Ordering::Acquire)
    }

    /// Marks the outcome as recorded. A call has one outcome.
    pub(crate) fn mark_outcome_recorded(&self) {
        self.outcome_recorded.store(true, Ordering::Release);
    }

    /// Returns true if the outcome is recorded in the ledger.
    pub(crate) fn is_outcome_recorded(&self) -> bool {
        self.outcome_recorded.load(Ordering::Acquire)
    }

    /// Runs a stage and records its duration in the span.
    pub(crate) fn time_stage<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let _timing = self.span.stage(stage);
        work()
    }

    /// Header of the ledger records of this call, for a tool that may be unknown.
    pub(crate) fn ledger_call(&self, tool: &str) -> Arc<CallHeader> {
        self.ledger_call_named(&recordable_tool_name(&self.snapshot, tool))
    }

    /// Header of the ledger records of this call, for a tool that is in the registry.
    pub(crate) fn ledger_call_for(&self, definition: &ToolDefinition) -> Arc<CallHeader> {
        self.ledger_call_named(definition.name().as_str())
    }

    /// Returns the shared header, or a copy if the call used another name of the tool.
    fn ledger_call_named(&self, tool: &str) -> Arc<CallHeader> {
        if self.header.tool == tool {
            return Arc::clone(&self.header);
        }
        Arc::new(CallHeader { tool: tool.to_owned(), ..CallHeader::clone(&self.header) })
    }

    /// Mode, workspaces and counts for the judge.
    pub(crate) fn situation(&self, counts: RateCounts) -> Situation<'_> {
        Situation { mode: self.header.mode, workspaces: &self.workspaces, counts }
    }

    /// Time until the caller's deadline, at most `limit`.
    pub(crate) fn time_left(&self, limit: Duration) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| left.min(limit))
    }

    /// Milliseconds since the request arrived.
    pub(crate) fn latency_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1000.0
    }
}

/// Digests that identify a repeated call.
#[derive(Clone, Debug)]
pub(crate) struct IdempotencyKey {
    /// Digest of the key and its party. The same key in another session or under another client name is a
    /// different key.
    pub(crate) scoped_digest: String,
    /// Digest of the arguments as the caller sent them, before any edit by the operator, and of the working
    /// directory.
    pub(crate) request_digest: String,
}

impl IdempotencyKey {
    fn of(key: &str, request: &CallRequest, ledger: &Ledger) -> IdempotencyKey {
        let scoped = json!({"party": request.caller.party_digest(), "idempotency_key": key});
        let sent =
            json!({"arguments": request.arguments, "cwd": request.cwd.as_deref().map(Path::to_string_lossy)});
        let digest = |value: &Value| ledger.keyed_digest(&canonical::bytes(value));
        IdempotencyKey { scoped_digest: digest(&scoped), request_digest: digest(&sent) }
    }
}

/// Redacts and shortens the client name, which the client chooses freely and which may contain a secret.
pub(crate) fn redact_client_name(caller: Caller) -> Caller {
    let fit = |name: String| match redact_name(&name) {
        Cow::Owned(shown) if shown != name => {
            tool::text::shorten_with_digest(&shown, MAX_RECORDED_NAME, &name)
        }
        Cow::Owned(_) | Cow::Borrowed(_) => name,
    };
    Caller { client: caller.client.map(fit), ..caller }
}

/// Tool name for the ledger. The name of a registered tool is recorded unchanged; any other name is redacted.
fn recordable_tool_name(snapshot: &ConfigSnapshot, name: &str) -> SharedText {
    match snapshot.definition(name) {
        Some(definition) if definition.name().as_str() == name => definition.name().to_shared_text(),
        _ => redact_name(name).into_owned().into(),
    }
}

/// Redacts and shortens an unchecked name, like every other text that a caller controls.
fn redact_name(name: &str) -> Cow<'_, str> {
    match redact::shared().redact_text(name) {
        Cow::Borrowed(name) if name.len() <= MAX_RECORDED_NAME => Cow::Borrowed(name),
        name => Cow::Owned(name.chars().take(MAX_RECORDED_NAME).collect()),
    }
}

const MAX_RECORDED_NAME: usize = 128;
