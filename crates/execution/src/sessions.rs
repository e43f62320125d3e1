//! Worker sessions: what an orchestrator lets a worker do. Each session has an allowlist and, per turn, a hop
//! budget and a cost cap. A worker can neither omit its session nor raise its limits: the worker socket
//! determines the session of a call, and the terms of a session never change.

mod admission;
mod budget;
mod standing;
mod terms;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use ledger::LedgerError;
use ledger::entry::SessionEvent;
use registry::Whose;
use serde_json::{Value, json};
use telemetry::{Event, Subject, emit};
use tokio_util::sync::CancellationToken;
use tool::{CallId, Caller, Progress, ToolDefinition, ToolResult, TraceContext, fresh_session_id};

pub(crate) use admission::{admit, charge, end_if_closed, report};
pub use standing::SessionStanding;
pub use terms::{SessionTerms, TermsError};

use crate::approvals::Asking;
use crate::bookkeeping::{Throttled, size_of};
use crate::call::{Call, CuratedMap, Request, nameable};
use crate::layer::ToolExecutionLayer;
use crate::recorder;
use crate::world::{ToolFilter, World};
use budget::{Budget, Exhausted, Turn};
use terms::Terms;

/// Tool name in the record of a message that names no tool.
const MALFORMED: &str = "(malformed)";
/// Tool name in the event of a cost that was reported from outside.
const REPORTED: &str = "sinew/session.spend";
/// Method that opens sessions, in records of rate limits.
const OPEN: &str = "sinew/session.open";
/// Size of the record of a session's end.
const CLOSE_BYTES: usize = 512;
/// Limits per user, regardless of client names: open sessions, and named sessions among them, which outlive
/// the connection that opened them. The server limits the total number.
const MOST_OF_USER: usize = 32;
const MOST_NAMED: usize = 16;

/// Open sessions by id.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<WorkerSession>>>);

/// Session of one worker.
pub(crate) struct WorkerSession {
    id: String,
    name: Option<String>,
    by: Caller,
    since: Timestamp,
    terms: Terms,
    turn: Mutex<Turn>,
    /// Set before the calls of the session are cancelled: a call that is not in the list of calls yet checks
    /// it.
    closed: AtomicBool,
    total: Mutex<Total>,
}

/// Usage of all turns together.
#[derive(Clone, Copy, Default)]
struct Total {
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
    #[error("{MOST_OF_USER} sessions are open for this user, over all client names: close one first")]
    TooManyOfUser,
    /// The user has too many named sessions, which stay open without a connection.
    #[error("{MOST_NAMED} named sessions are open for this user: close one, or open one without a name")]
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
pub(crate) fn is_malformed(call: &Call) -> bool {
    call.tool_name.as_str() == MALFORMED
}

impl Sessions {
    fn find(&self, id: &str) -> Option<Arc<WorkerSession>> {
        self.list().get(id).map(Arc::clone)
    }

    /// Checks that one more session may be opened. The user is identified by uid, not by client name.
    fn room_for(&self, by: &Caller, named: bool) -> Result<(), SessionError> {
        let list = self.list();
        let of_user = || list.values().filter(|session| session.by.uid == by.uid);
        if of_user().count() >= MOST_OF_USER {
            return Err(SessionError::TooManyOfUser);
        }
        if named && of_user().filter(|session| session.name.is_some()).count() >= MOST_NAMED {
            return Err(SessionError::TooManyNamed);
        }
        Ok(())
    }

    fn list(&self) -> MutexGuard<'_, HashMap<String, Arc<WorkerSession>>> {
        // Every statement leaves the map consistent, so it is valid even after a panic in another thread.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerSession {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        // Every statement leaves the numbers consistent.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget(&self) -> &Budget {
        &self.terms.budget
    }

    /// Counts a call against the hop budget of this turn. Returns its number.
    fn spend_hop(&self) -> Result<u32, Exhausted> {
        let mut turn = self.turn();
        let before = turn.hops;
        let spent = turn.spend_hop(self.budget());
        self.total().hops += u64::from(turn.hops - before);
        spent
    }

    /// Adds the cost of a call, unless the turn has exceeded its cap since the call was admitted: other calls
    /// may have run while this one waited.
    fn charge(&self, cost: f64) -> Result<Option<(f64, f64)>, Exhausted> {
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

    fn total(&self) -> MutexGuard<'_, Total> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the allowlist contains this tool, by any of its current names.
    fn allows(&self, tool: &str, world: &World) -> bool {
        let same = |listed: &String| {
            let (listed_as, asked_as) = (world.registry.get(listed), world.registry.get(tool));
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
        let world = self.world.load();
        let (terms, name) = (Terms::check(&wish, &world.policy.files().safety.sessions)?, wish.name);
        let by = nameable(by.clone());
        // The server opens worker sockets one at a time, so the capacity checked here cannot be taken before
        // the insert.
        self.sessions.room_for(&by, name.is_some())?;
        let shown = terms.shown(&world);
        let session_id = fresh_session_id();
        let data = json!({"name": name, "by": by, "terms": shown});
        // Charged for its end too, which is then recorded whatever the budget.
        self.bookkeeping.charge(&by, size_of(&data) + CLOSE_BYTES).map_err(|throttled| {
            self.record_throttled(&by, OPEN, throttled);
            SessionError::RateLimited(throttled)
        })?;
        recorder::session(self, &session_id, SessionEvent::Opened, &data)?;
        let total = Mutex::new(Total { turns: 1, ..Total::default() });
        let (id, since) = (session_id.clone(), Timestamp::now());
        let (turn, closed) = (Mutex::default(), AtomicBool::new(false));
        let session = WorkerSession { id, name, by, since, terms, turn, closed, total };
        self.sessions.list().insert(session_id.clone(), Arc::new(session));
        Ok(OpenedSession { session_id, terms: shown })
    }

    /// Begins a new turn with full budgets.
    pub fn next_turn(&self, id: &str) -> Result<Value, SessionError> {
        let session = self.sessions.find(id).ok_or(SessionError::NotFound)?;
        *session.turn() = Turn::default();
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
        let call =
            Subject { tool: REPORTED, call_id, trace: &trace, mode: self.mode(), session: Some(session) };
        emit(Event::WorkerToolCostWarning { call, cost, cap });
    }

    /// Refuses a message of a worker that is not a valid call. It counts against the hop budget and is
    /// recorded like any refusal.
    pub fn refuse_malformed(&self, caller: Caller, reason: &str) -> ToolResult {
        let request = Request {
            tool_name: MALFORMED.to_owned(),
            arguments: Value::Null,
            caller,
            trace: TraceContext::root(),
            deadline: None,
            cwd: None,
            progress: Progress::default(),
            started: Instant::now(),
            curated_map: CuratedMap::Asked,
            idempotency_key: None,
            withdrawn: CancellationToken::new(),
            asking: Asking::Never,
            approval_id: None,
        };
        let (call, _) = Call::admit(request, &self.ledger, self.world.load_full(), self.mode.get());
        let refusal = match admission::spend_hop(self, &call) {
            Err(refusal) => *refusal,
            Ok(_) => admission::malformed(reason),
        };
        let mut result = recorder::refused(self, &call, refusal);
        report(&call, &mut result);
        recorder::export(call, &result);
        result
    }

    /// Tool definitions that pass the filter and that the session allows, sorted by name. Without a session,
    /// all that pass the filter.
    pub fn tools_in(&self, session: Option<&str>, filter: &ToolFilter) -> Vec<Arc<ToolDefinition>> {
        let world = self.world.load();
        let mut tools = world.tools(filter);
        if let Some(id) = session {
            let session = self.sessions.find(id);
            tools.retain(|tool| {
                session.as_ref().is_some_and(|open| open.allows(tool.name().as_str(), &world))
            });
        }
        tools
    }

    /// Closes a session, cancels its running calls and records it.
    pub fn close_session(&self, id: &str, reason: &str) -> Result<(), SessionError> {
        let session = self.sessions.list().remove(id).ok_or(SessionError::NotFound)?;
        session.closed.store(true, Ordering::SeqCst);
        self.calls.end_session(id);
        self.world.load().let_go(Whose::Session(id), |_| true);
        let total = *session.total();
        let data = json!({"reason": reason, "turns": total.turns, "hops": total.hops, "cost": total.cost});
        if let Err(error) = recorder::session(self, id, SessionEvent::Closed, &data) {
            tracing::error!(%error, session = id, "the end of a session could not be recorded");
        }
        Ok(())
    }
}
