//! Worker sessions in the pipeline: the admission of their calls, the session report of every result, and the
//! methods that open, charge and close them.

use std::sync::Arc;
use std::time::Instant;

use approvals::ApprovalMode;
use approvals::sessions::{
    OpenedSession, SessionError, SessionStatus, SessionTable, SessionTerms, WorkerSession,
};
use registry::CacheScope;
use serde_json::{Value, json};
use telemetry::{CallContext, TelemetryEvent, emit};
use tokio_util::sync::CancellationToken;
use tool::{
    CallId, Caller, Failure, FailureKind, Mode, Progress, Refusal, RefusalCode, ToolDefinition, ToolName,
    ToolResult, TraceContext,
};

use crate::call::{CallRequest, CuratedMapCheck, PipelineCall, redact_client_name};
use crate::calls::{ConnectionLoss, StoppedBy};
use crate::config_snapshot::ToolFilter;
use crate::layer::ToolExecutionLayer;
use crate::recorder;

/// Tool name in the record of a message that names no tool.
const MALFORMED_TOOL: &str = "(malformed)";
/// Tool name in the event of a cost that was reported from outside.
const REPORTED_COST_TOOL: &str = "sinew/session.spend";
/// Method that opens sessions, in records of rate limits.
const OPEN: &str = "sinew/session.open";

/// Admits a call of a worker and counts it against the hop budget. A call that runs through the pipeline
/// again was counted before.
pub(crate) fn admit(sessions: &SessionTable, call: &PipelineCall) -> Result<(), Box<Refusal>> {
    if call.header.caller.session.is_none() {
        return Ok(());
    }
    // A reload between two passes can give the name to another tool, so the allowlist is checked each time.
    let session = match call.worker_session.get() {
        Some(session) => Arc::clone(session),
        None => spend_hop(sessions, call)?,
    };
    if session.allows(&call.tool_name, &call.snapshot.registry) {
        return Ok(());
    }
    Err(Box::new(session.not_allowed_refusal(&call.tool_name)))
}

/// Counts a call against the hop budget, independently of its result.
fn spend_hop(sessions: &SessionTable, call: &PipelineCall) -> Result<Arc<WorkerSession>, Box<Refusal>> {
    let id = call.header.caller.session.as_deref().unwrap_or_default();
    let Some(session) = sessions.find(id) else { return Err(closed_refusal(call)) };
    let session = Arc::clone(call.worker_session.get_or_init(|| session));
    match session.spend_hop() {
        Ok(hop) => {
            let hop_budget = session.hop_budget();
            emit(TelemetryEvent::WorkerInnerCall {
                call: recorder::subject(call, &call.tool_name),
                hop,
                hop_budget,
            });
            Ok(session)
        }
        Err(exhausted) => Err(Box::new(session.exhausted_refusal(&call.tool_name, exhausted))),
    }
}

/// Adds the cost of a call that is about to run, or fails if the cost cap was exceeded in the meantime.
pub(crate) fn charge(call: &PipelineCall, tool: &ToolName) -> Result<(), Failure> {
    let Some(session) = call.worker_session.get() else { return Ok(()) };
    match session.charge(call.snapshot.policy.cost_per_call(tool)) {
        Ok(Some((cost, cap))) => {
            emit(TelemetryEvent::WorkerToolCostWarning {
                call: recorder::subject(call, tool.as_str()),
                cost,
                cap,
            });
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(exhausted) => {
            let refusal = session.exhausted_refusal(&call.tool_name, exhausted);
            let failure = Failure::new(FailureKind::Denied, refusal.reason).with_hint("nothing was run");
            Err(Failure { output: Some(json!({"outcome": refusal.code})), ..failure })
        }
    }
}

/// Cancels a call whose session was closed before the call was in the list of calls.
pub(crate) fn cancel_if_closed(call: &PipelineCall) {
    if call.worker_session.get().is_some_and(|session| session.is_closed()) {
        call.tracker.stop().request(StoppedBy::Session);
    }
}

/// Adds the session report to a result: remaining budgets and the marks around untrusted content.
pub(crate) fn add_session_report(call: &PipelineCall, result: &mut ToolResult) {
    let Some(session) = call.worker_session.get() else { return };
    result.metadata.remaining.extend(session.remaining());
    let error = result.error.as_deref().unwrap_or_default();
    result.metadata.session = Some(session.report(&format!("{}{error}", result.output)));
}

/// Refusal of a message that is not a valid call.
fn malformed_refusal(code: RefusalCode, reason: &str) -> Refusal {
    let message = format!("Invalid call: {reason}");
    let detail = if code == RefusalCode::TooLarge { "message_too_large" } else { "malformed_envelope" };
    let refusal = Refusal::new(MALFORMED_TOOL, code, message).with_detail(detail);
    let refusal = refusal.with_hint("send one JSON object per line, with the tool's name and its arguments");
    Refusal { schema_error: Some(reason.to_owned()), ..refusal }
}

fn warn_of_cost(mode: Mode, session: &str, (cost, cap): (f64, f64)) {
    let (trace, call_id) = (TraceContext::root(), CallId::fresh());
    let session = Some(session);
    let call = CallContext { tool: REPORTED_COST_TOOL, call_id, trace: &trace, mode, session };
    emit(TelemetryEvent::WorkerToolCostWarning { call, cost, cap });
}

fn closed_refusal(call: &PipelineCall) -> Box<Refusal> {
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, "This worker session is closed");
    let refusal = refusal.with_detail("session_closed").with_hint("the orchestrator can open a new session");
    Box::new(Refusal { retryable: false, ..refusal })
}

impl ToolExecutionLayer {
    /// Opens a session and records it.
    pub fn open_session(&self, terms: SessionTerms, by: &Caller) -> Result<OpenedSession, SessionError> {
        if let Some(left) = self.suspensions.time_left(by.key()) {
            let retry_after_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            return Err(SessionError::RateLimited { retry_after_ms });
        }
        let snapshot = self.current.snapshot.load();
        let usual = snapshot.policy.session_budgets();
        let by = redact_client_name(by.clone());
        self.sessions.open(terms, by, (&usual, &snapshot.registry), &self.recorder.ledger, |by, bytes| {
            self.recorder.bookkeeping.charge(by, bytes).map_err(|throttled| {
                self.recorder.record_throttled(by, OPEN, throttled);
                SessionError::RateLimited { retry_after_ms: throttled.retry_after_ms }
            })
        })
    }

    /// Begins a new turn with full budgets.
    pub fn next_turn(&self, id: &str) -> Result<Value, SessionError> {
        let session = self.sessions.find(id).ok_or(SessionError::NotFound)?;
        let turn = session.begin_turn();
        Ok(json!({"session_id": id, "turn": turn, "remaining": session.remaining()}))
    }

    /// Open sessions, oldest first.
    pub fn worker_sessions(&self) -> Vec<SessionStatus> {
        self.sessions.statuses()
    }

    /// Adds a cost from outside to this turn, such as the tokens of the model of the worker.
    pub fn spend_in_session(&self, id: &str, cost: f64) -> Result<Value, SessionError> {
        let session = self.sessions.find(id).ok_or(SessionError::NotFound)?;
        if let Some((cost, cap)) = session.spend(cost) {
            warn_of_cost(self.mode(), id, (cost, cap));
        }
        Ok(json!({"session_id": id, "cost": session.turn_cost(), "remaining": session.remaining()}))
    }

    /// Refuses a message that is not a valid call. It is recorded like any refusal, and counts against the
    /// hop budget of a worker.
    pub fn refuse_malformed(&self, caller: Caller, code: RefusalCode, reason: &str) -> ToolResult {
        let request = CallRequest {
            tool_name: MALFORMED_TOOL.to_owned(),
            arguments: Value::Null,
            caller,
            trace: TraceContext::root(),
            deadline: None,
            cwd: None,
            progress: Progress::default(),
            started: Instant::now(),
            curated_map: CuratedMapCheck::Applied,
            idempotency_key: None,
            cancellation: CancellationToken::new(),
            approval_mode: ApprovalMode::Never,
            approval_id: None,
            connection_loss: ConnectionLoss::StopsCall,
        };
        let (call, _) = PipelineCall::receive(
            request,
            &self.recorder.ledger,
            self.current.snapshot.load_full(),
            self.current.mode.get(),
        );
        let hop = call.header.caller.session.is_some().then(|| spend_hop(&self.sessions, &call));
        let refusal = match hop {
            Some(Err(refusal)) => *refusal,
            None | Some(Ok(_)) => malformed_refusal(code, reason),
        };
        let mut result = self.recorder.record_malformed(&call, refusal);
        add_session_report(&call, &mut result);
        recorder::export(call, &result);
        result
    }

    /// Tool definitions that pass the filter and that the session allows, sorted by name. Without a session,
    /// all that pass the filter.
    pub fn tools_in(&self, session: Option<&str>, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        let snapshot = self.current.snapshot.load();
        let mut tools = snapshot.tools(filter);
        if let Some(id) = session {
            let session = self.sessions.find(id);
            tools.retain(|tool| {
                session.as_ref().is_some_and(|open| open.allows(tool.name().as_str(), &snapshot.registry))
            });
        }
        tools
    }

    /// Closes a session, cancels its running calls and records it.
    pub fn close_session(&self, id: &str, reason: &str) -> Result<(), SessionError> {
        let session = self.sessions.close(id)?;
        self.active_calls.stop_session(id);
        self.current.snapshot.load().release_resources(CacheScope::Session(id), |_| true);
        if let Err(error) = session.record_end(&self.recorder.ledger, reason) {
            tracing::error!(%error, session = id, "the end of a session could not be recorded");
        }
        Ok(())
    }
}
