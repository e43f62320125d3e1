//! Worker sessions: what an orchestrator lets a worker do. Each has its allowlist and, turn by turn, a number of calls
//! and a cap of costs. A worker can neither leave its session out nor raise what it has: which session a call is in is
//! the door's word, and a session's terms never change.

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
use crate::call::{Call, CuratedMap, Request, nameable};
use crate::layer::ToolExecutionLayer;
use crate::recorder;
use crate::world::{ToolFilter, World};
use budget::{Budget, Exhausted, Turn};
use terms::Terms;

/// Stands for the tool where a message names none.
const MALFORMED: &str = "(malformed)";
/// Stands for the tool where a cost was reported from outside.
const REPORTED: &str = "sinew/session.spend";
/// How many may be one user's, whatever its clients call themselves, and how many of those may outlive the connection that
/// opened them. How many there are at all is for whoever opens their doors.
const MOST_OF_USER: usize = 32;
const MOST_NAMED: usize = 16;

/// Those that are open.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<WorkerSession>>>);

/// One worker's session.
pub(crate) struct WorkerSession {
    id: String,
    name: Option<String>,
    by: Caller,
    since: Timestamp,
    terms: Terms,
    turn: Mutex<Turn>,
    /// Set before its calls are told to end: one that was not on their list yet looks here.
    closed: AtomicBool,
    total: Mutex<Total>,
}

/// What all turns together have used.
#[derive(Clone, Copy, Default)]
struct Total {
    turns: u32,
    hops: u64,
    cost: f64,
}

/// A session that was opened, as whoever opened it is told.
#[derive(Clone, Debug)]
pub struct OpenedSession {
    /// Names it in results and records.
    pub session_id: String,
    /// What it may do: allowlist, budgets, and which of the names no tool has.
    pub terms: Value,
}

/// Why a session was not opened, or is not there.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// What it asks for cannot be.
    #[error(transparent)]
    Terms(#[from] TermsError),
    /// One user has enough, by the kernel's word.
    #[error(
        "{MOST_OF_USER} sessions of this user are open, whatever its clients call themselves: close one first"
    )]
    TooManyOfUser,
    /// One user has enough that stay open without a connection.
    #[error(
        "{MOST_NAMED} sessions with a name are open for this user: close one, or open one without a name"
    )]
    TooManyNamed,
    /// It is not open, or was never this caller's.
    #[error("no such session is open")]
    NotFound,
    /// It could not be put on record.
    #[error("the session could not be recorded: {0}")]
    NotRecorded(#[from] LedgerError),
}

impl Sessions {
    fn find(&self, id: &str) -> Option<Arc<WorkerSession>> {
        self.list().get(id).map(Arc::clone)
    }

    /// Whether one more may be opened. What a client calls itself does not make it another user.
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
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerSession {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        // Numbers are whole after every statement.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn budget(&self) -> &Budget {
        &self.terms.budget
    }

    /// Spends a call of this turn.
    fn spend_hop(&self) -> Result<u32, Exhausted> {
        let mut turn = self.turn();
        let before = turn.hops;
        let spent = turn.spend_hop(self.budget());
        self.total().hops += u64::from(turn.hops - before);
        spent
    }

    /// Adds what a call costs, unless the turn has cost too much meanwhile: a call that waited was let in before others ran.
    fn charge(&self, cost: f64) -> Result<Option<(f64, f64)>, Exhausted> {
        let mut turn = self.turn();
        let before = turn.cost;
        let passed = turn.charge(self.budget(), cost)?;
        self.total().cost += turn.cost - before;
        Ok(passed.map(|cap| (turn.cost, cap)))
    }

    /// Adds a cost to this turn; what it has cost so far, and its cap, where that is to be warned of.
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

    /// Whether a call may name this tool: by any of the names it has, as of now.
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
    /// Opens a session with these terms, on record.
    pub fn open_session(&self, wish: SessionTerms, by: &Caller) -> Result<OpenedSession, SessionError> {
        let world = self.world.load();
        let (terms, name) = (Terms::check(&wish, &world.policy.files().safety.sessions)?, wish.name);
        let by = nameable(by.clone());
        // Doors are opened one at a time, so what there is room for now there still is below.
        self.sessions.room_for(&by, name.is_some())?;
        let shown = terms.shown(&world);
        let session_id = fresh_session_id();
        let data = json!({"name": name, "by": by, "terms": shown});
        recorder::session(self, &session_id, SessionEvent::Opened, &data)?;
        let total = Mutex::new(Total { turns: 1, ..Total::default() });
        let (id, since) = (session_id.clone(), Timestamp::now());
        let (turn, closed) = (Mutex::default(), AtomicBool::new(false));
        let session = WorkerSession { id, name, by, since, terms, turn, closed, total };
        self.sessions.list().insert(session_id.clone(), Arc::new(session));
        Ok(OpenedSession { session_id, terms: shown })
    }

    /// Begins a new turn: its budgets are whole again.
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

    /// Adds to this turn what the worker has cost elsewhere, such as the tokens of its model.
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

    /// A message of a worker that is no call: it costs one all the same, is refused in the one shape and on record.
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

    /// The definitions that the worker of a session may call and that pass the filter, by name. Without a session, all.
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

    /// Ends a session and whatever of it still runs, on record. One that is not open stays so.
    pub fn close_session(&self, id: &str, reason: &str) -> Result<(), SessionError> {
        let session = self.sessions.list().remove(id).ok_or(SessionError::NotFound)?;
        session.closed.store(true, Ordering::SeqCst);
        self.calls.end_session(id);
        self.world.load().let_go(Whose::Session(id), |_| true);
        let total = *session.total();
        let data = json!({"reason": reason, "turns": total.turns, "hops": total.hops, "cost": total.cost});
        if let Err(error) = recorder::session(self, id, SessionEvent::Closed, &data) {
            tracing::error!(%error, session = id, "a session was closed, but that could not be recorded");
        }
        Ok(())
    }
}
