//! Worker sessions: what an orchestrator lets a worker do. Each session has an allowlist and, per turn, a hop
//! budget and a cost cap. A worker can neither omit its session nor raise its limits: the worker socket
//! determines the session of a call, and the terms of a session never change.

mod admission;
mod budget;
mod status;
mod terms;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use ledger::LedgerError;
use ledger::entry::SessionEvent;
use registry::CacheScope;
use serde_json::{Value, json};
use telemetry::{CallContext, TelemetryEvent, emit};
use tokio_util::sync::CancellationToken;
use tool::{
    CallId, Caller, Progress, RefusalCode, ToolDefinition, ToolResult, TraceContext, fresh_session_id,
};

pub(crate) use admission::{add_session_report, admit, cancel_if_closed, charge};
pub use status::SessionStatus;
pub use terms::{SessionTerms, TermsError};

use crate::approvals::ApprovalMode;
use crate::bookkeeping::{Throttled, size_of};
use crate::call::{CallRequest, CuratedMapCheck, PipelineCall, redact_client_name};
use crate::config_snapshot::{ConfigSnapshot, ToolFilter};
use crate::layer::ToolExecutionLayer;
use crate::recorder;
use budget::{BudgetExhausted, TurnBudget, TurnUsage};
use terms::CheckedTerms;

/// Tool name in the record of a message that names no tool.
const MALFORMED_TOOL: &str = "(malformed)";
/// Tool name in the event of a cost that was reported from outside.
const REPORTED_COST_TOOL: &str = "sinew/session.spend";
/// Method that opens sessions, in records of rate limits.
const OPEN: &str = "sinew/session.open";
/// Size of the record of a session's end.
const CLOSE_BYTES: usize = 512;
/// Limits per user, regardless of client names: open sessions, and named sessions among them, which outlive
/// the connection that opened them. The server limits the total number.
const MAX_PER_USER: usize = 32;
const MAX_NAMED_PER_USER: usize = 16;

/// Open sessions by id.
#[derive(Default)]
pub(crate) struct SessionTable(Mutex<HashMap<String, Arc<WorkerSession>>>);

/// Session of one worker.
pub(crate) struct WorkerSession {
    id: String,
    name: Option<String>,
    opened_by: Caller,
    opened_at: Timestamp,
    terms: CheckedTerms,
    turn: Mutex<TurnUsage>,
    /// Set before the calls of the session are cancelled: a call that is not in the list of calls yet checks
    /// it.
    closed: AtomicBool,
    total: Mutex<SessionTotals>,
}

/// Usage of all turns together.
#[derive(Clone, Copy, Default)]
struct SessionTotals {
    turns: u32,
    hops: u64,
    cost: f64,
}

/// Opened session, as reported to the client that opened it.
#[derive(Clone, Debug)]
pub struct OpenedSession {
    /// Id of the session in results and ledger records.
    pub session_id: String,
    /// Effective terms: allowlist, budgets, and the names that match no tool.
    pub terms: Value,
}

/// Reason why a session was not opened or not found.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The requested terms are invalid.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// The user, identified by the uid from the kernel, has too many open sessions.
    #[error("{MAX_PER_USER} sessions are open for this user, over all client names: close one first")]
    TooManyOfUser,
    /// The user has too many named sessions, which stay open without a connection.
    #[error(
        "{MAX_NAMED_PER_USER} named sessions are open for this user: close one, or open one without a name"
    )]
    TooManyNamed,
    /// It is not open, or belongs to another caller.
    #[error("no such session is open")]
    NotFound,
    /// The records of its caller's sessions are over their budget.
    #[error(
        "the records of this caller's sessions exceed their budget in the ledger: try again later, or with a shorter allowlist"
    )]
    RateLimited(Throttled),
    /// It could not be recorded.
    #[error("the session could not be recorded: {0}")]
    NotRecorded(#[from] LedgerError),
}

/// Reports that a call stands for a message that is no call.
pub(crate) fn is_malformed(call: &PipelineCall) -> bool {
    call.tool_name.as_str() == MALFORMED_TOOL
}

impl SessionTable {
    fn find(&self, id: &str) -> Option<Arc<WorkerSession>> {
        self.lock().get(id).map(Arc::clone)
    }

    /// Checks that one more session may be opened. The user is identified by uid, not by client name.
    fn check_capacity(&self, by: &Caller, named: bool) -> Result<(), SessionError> {
        let list = self.lock();
        let of_user = || list.values().filter(|session| session.opened_by.uid == by.uid);
        if of_user().count() >= MAX_PER_USER {
            return Err(SessionError::TooManyOfUser);
        }
        if named && of_user().filter(|session| session.name.is_some()).count() >= MAX_NAMED_PER_USER {
            return Err(SessionError::TooManyNamed);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<WorkerSession>>> {
        // Every statement leaves the map consistent, so it is valid even after a panic in another thread.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerSession {
    fn turn(&self) -> MutexGuard<'_, TurnUsage> {
        // Every statement leaves the numbers consistent.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget(&self) -> &TurnBudget {
        &self.terms.budget
    }

    /// Counts a call against the hop budget of this turn. Returns its number.
    fn spend_hop(&self) -> Result<u32, BudgetExhausted> {
        let mut turn = self.turn();
        let before = turn.hops;
        let spent = turn.spend_hop(self.budget());
        self.total().hops += u64::from(turn.hops - before);
        spent
    }

    /// Adds the cost of a call, unless the turn has exceeded its cap since the call was admitted: other calls
    /// may have run while this one waited.
    fn charge(&self, cost: f64) -> Result<Option<(f64, f64)>, BudgetExhausted> {
        let mut turn = self.turn();
        let before = turn.cost;
        let passed = turn.charge(self.budget(), cost)?;
        self.total().cost += turn.cost - before;
        Ok(passed.map(|cap| (turn.cost, cap)))
    }

    /// Adds a cost to this turn. Returns the cost so far and the cap if a warning is due.
    fn spend(&self, cost: f64) -> Option<(f64, f64)> {
        let mut turn = self.turn();
        let before = turn.cost;
        let passed = turn.spend(self.budget(), cost);
        self.total().cost += turn.cost - before;
        passed.map(|cap| (turn.cost, cap))
    }

    fn total(&self) -> MutexGuard<'_, SessionTotals> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the allowlist contains this tool, by any of its current names.
    fn allows(&self, tool: &str, snapshot: &ConfigSnapshot) -> bool {
        let same = |listed: &String| {
            let (listed_as, asked_as) = (snapshot.registry.get(listed), snapshot.registry.get(tool));
            match (listed_as, asked_as) {
                (Some(listed), Some(asked)) => Arc::ptr_eq(listed, asked),
                _ => false,
            }
        };
        self.terms.allowlist.iter().any(same)
    }
}

impl ToolExecutionLayer {
    /// Opens a session and records it.
    pub fn open_session(&self, wish: SessionTerms, by: &Caller) -> Result<OpenedSession, SessionError> {
        let snapshot = self.snapshot.load();
        let (terms, name) =
            (CheckedTerms::check(&wish, &snapshot.policy.files().safety.sessions)?, wish.name);
        let by = redact_client_name(by.clone());
        // The server opens worker sockets one at a time, so the capacity checked here cannot be taken before
        // the insert.
        self.sessions.check_capacity(&by, name.is_some())?;
        let shown = terms.to_json(&snapshot);
        let session_id = fresh_session_id();
        let data = json!({"name": name, "by": by, "terms": shown});
        // Charged for its end too, which is then recorded whatever the budget.
        self.bookkeeping.charge(&by, size_of(&data) + CLOSE_BYTES).map_err(|throttled| {
            self.record_throttled(&by, OPEN, throttled);
            SessionError::RateLimited(throttled)
        })?;
        recorder::record_session(self, &session_id, SessionEvent::Opened, &data)?;
        let total = Mutex::new(SessionTotals { turns: 1, ..SessionTotals::default() });
        let (id, since) = (session_id.clone(), Timestamp::now());
        let (turn, closed) = (Mutex::default(), AtomicBool::new(false));
        let session = WorkerSession { id, name, opened_by: by, opened_at: since, terms, turn, closed, total };
        self.sessions.lock().insert(session_id.clone(), Arc::new(session));
        Ok(OpenedSession { session_id, terms: shown })
    }

    /// Begins a new turn with full budgets.
    pub fn next_turn(&self, id: &str) -> Result<Value, SessionError> {
        let session = self.sessions.find(id).ok_or(SessionError::NotFound)?;
        *session.turn() = TurnUsage::default();
        let turn = {
            let mut total = session.total();
            total.turns += 1;
            total.turns
        };
        Ok(json!({"session_id": id, "turn": turn, "remaining": admission::remaining(&session)}))
    }

    /// Adds a cost from outside to this turn, such as the tokens of the model of the worker.
    pub fn spend_in_session(&self, id: &str, cost: f64) -> Result<Value, SessionError> {
        let session = self.sessions.find(id).ok_or(SessionError::NotFound)?;
        if let Some((cost, cap)) = session.spend(cost) {
            self.warn_of_cost(id, cost, cap);
        }
        Ok(
            json!({"session_id": id, "cost": session.turn().cost, "remaining": admission::remaining(&session)}),
        )
    }

    fn warn_of_cost(&self, session: &str, cost: f64, cap: f64) {
        let (trace, call_id) = (TraceContext::root(), CallId::fresh());
        let call = CallContext {
            tool: REPORTED_COST_TOOL,
            call_id,
            trace: &trace,
            mode: self.mode(),
            session: Some(session),
        };
        emit(TelemetryEvent::WorkerToolCostWarning { call, cost, cap });
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
        };
        let (call, _) =
            PipelineCall::receive(request, &self.ledger, self.snapshot.load_full(), self.mode.get());
        let hop = call.caller.session.is_some().then(|| admission::spend_hop(self, &call));
        let refusal = match hop {
            Some(Err(refusal)) => *refusal,
            None | Some(Ok(_)) => admission::malformed_refusal(code, reason),
        };
        let mut result = recorder::record_refusal(self, &call, refusal);
        add_session_report(&call, &mut result);
        recorder::export(call, &result);
        result
    }

    /// Tool definitions that pass the filter and that the session allows, sorted by name. Without a session,
    /// all that pass the filter.
    pub fn tools_in(&self, session: Option<&str>, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        let snapshot = self.snapshot.load();
        let mut tools = snapshot.tools(filter);
        if let Some(id) = session {
            let session = self.sessions.find(id);
            tools.retain(|tool| {
                session.as_ref().is_some_and(|open| open.allows(tool.name().as_str(), &snapshot))
            });
        }
        tools
    }

    /// Closes a session, cancels its running calls and records it.
    pub fn close_session(&self, id: &str, reason: &str) -> Result<(), SessionError> {
        let session = self.sessions.lock().remove(id).ok_or(SessionError::NotFound)?;
        session.closed.store(true, Ordering::SeqCst);
        self.active_calls.stop_session(id);
        self.snapshot.load().release_resources(CacheScope::Session(id), |_| true);
        let total = *session.total();
        let data = json!({"reason": reason, "turns": total.turns, "hops": total.hops, "cost": total.cost});
        if let Err(error) = recorder::record_session(self, id, SessionEvent::Closed, &data) {
            tracing::error!(%error, session = id, "the end of a session could not be recorded");
        }
        Ok(())
    }
}
