//! Worker sessions: the tools that an orchestrator permits to a worker. Each session has an allowlist and, per turn, a hop
//! budget and a cost cap. A worker can neither omit its session nor raise its limits: the worker socket
//! determines the session of a call, and the terms of a session never change.

mod budget;
mod status;
mod terms;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use governance::files::SessionsEntry;
use jiff::Timestamp;
use ledger::entry::{SessionEntry, SessionEvent};
use ledger::{Ledger, LedgerEntry, LedgerError};
use registry::ToolRegistry;
use serde_json::{Map, Value, json};
use telemetry::redact;
use tool::result::{CostCapReport, SessionReport, UntrustedMarkers, fresh_session_id};
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{Caller, Refusal, RefusalCode};

pub use budget::BudgetExhausted;
pub use status::SessionStatus;
pub use terms::{SessionTerms, TermsError};

use crate::caller_share::{CallerShare, ShareExceeded};

use budget::{TurnBudget, TurnUsage};
use terms::CheckedTerms;

/// Size of the record of a session's end.
const CLOSE_BYTES: usize = 512;
/// Limits of open sessions, and of named sessions among them, which outlive the connection that opened them. The
/// server limits the total number.
const OPEN_SHARE: CallerShare = CallerShare { per_user: 48, per_caller: 32, reserved: 16, small: 8 };
const NAMED_SHARE: CallerShare = CallerShare { per_user: 24, per_caller: 16, reserved: 8, small: 4 };

/// Open sessions by id.
#[derive(Debug, Default)]
pub struct SessionTable(Mutex<HashMap<String, Arc<WorkerSession>>>);

/// Session of one worker.
#[derive(Debug)]
pub struct WorkerSession {
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
#[derive(Clone, Copy, Debug, Default)]
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
    /// The caller has too many open sessions, under all of its client names.
    #[error("this process has {0} open sessions, the limit for one process: close one first")]
    TooMany(usize),
    /// The caller has too many named sessions, which stay open without a connection.
    #[error(
        "this process has {0} named sessions, the limit for one process: close one, or open one without a name"
    )]
    TooManyNamed(usize),
    /// All callers of the user together have too many open sessions.
    #[error(
        "{0} sessions of this user are open, and no more of this process are possible beside them: close one first"
    )]
    TooManyOfUser(usize),
    /// It is not open, or belongs to another caller.
    #[error("no such session is open")]
    NotFound,
    /// The records of its caller's sessions are over their budget.
    #[error(
        "the records of this caller's sessions exceed their budget in the ledger: try again later, or with a shorter allowlist"
    )]
    RateLimited {
        /// Time after which they fit.
        retry_after_ms: u64,
    },
    /// It could not be recorded.
    #[error("the session could not be recorded: {0}")]
    NotRecorded(#[from] LedgerError),
}

impl SessionTable {
    /// Returns the open session with this id.
    pub fn find(&self, id: &str) -> Option<Arc<WorkerSession>> {
        self.lock().get(id).map(Arc::clone)
    }

    /// Opens a session and records it. `charge` is given the size of its records and may refuse them.
    pub fn open(
        &self,
        requested: SessionTerms,
        by: Caller,
        (usual, registry): (&SessionsEntry, &ToolRegistry),
        ledger: &Ledger,
        charge: impl FnOnce(&Caller, usize) -> Result<(), SessionError>,
    ) -> Result<OpenedSession, SessionError> {
        let (terms, name) = (CheckedTerms::check(&requested, usual)?, requested.name);
        // The server opens worker sockets one at a time, so the capacity checked here cannot be taken before
        // the insert.
        self.check_capacity(&by, name.is_some())?;
        let shown = terms.to_json(registry);
        let session_id = fresh_session_id();
        let data = json!({"name": name, "by": by, "terms": shown});
        // Charged for its end too, which is recorded even if the budget is used up by then.
        charge(&by, data.to_string().len() + CLOSE_BYTES)?;
        record(ledger, &session_id, SessionEvent::Opened, &data)?;
        let session = WorkerSession {
            id: session_id.clone(),
            name,
            opened_by: by,
            opened_at: Timestamp::now(),
            terms,
            turn: Mutex::default(),
            closed: AtomicBool::new(false),
            total: Mutex::new(SessionTotals { turns: 1, ..SessionTotals::default() }),
        };
        self.lock().insert(session_id.clone(), Arc::new(session));
        Ok(OpenedSession { session_id, terms: shown })
    }

    /// Removes a session, so that it admits no more calls.
    pub fn close(&self, id: &str) -> Result<Arc<WorkerSession>, SessionError> {
        let session = self.lock().remove(id).ok_or(SessionError::NotFound)?;
        session.closed.store(true, Ordering::SeqCst);
        Ok(session)
    }

    /// Open sessions, oldest first.
    pub fn statuses(&self) -> Vec<SessionStatus> {
        let mut open: Vec<SessionStatus> = self.lock().values().map(|session| session.status()).collect();
        open.sort_by(|one, other| (one.since, &one.session_id).cmp(&(other.since, &other.session_id)));
        open
    }

    /// Checks that one more session may be opened.
    fn check_capacity(&self, by: &Caller, named: bool) -> Result<(), SessionError> {
        let list = self.lock();
        let open = list.values().map(|session| session.opened_by());
        OPEN_SHARE.check(by, open).map_err(|exceeded| match exceeded {
            ShareExceeded::Caller(max) => SessionError::TooMany(max),
            ShareExceeded::User(max) => SessionError::TooManyOfUser(max),
        })?;
        if !named {
            return Ok(());
        }
        let named = list.values().filter(|session| session.name.is_some()).map(|session| session.opened_by());
        NAMED_SHARE.check(by, named).map_err(|exceeded| match exceeded {
            ShareExceeded::Caller(max) => SessionError::TooManyNamed(max),
            ShareExceeded::User(max) => SessionError::TooManyOfUser(max),
        })
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

    /// Returns the caller that opened the session.
    pub fn opened_by(&self) -> &Caller {
        &self.opened_by
    }

    /// Counts a call against the hop budget of this turn. Returns its number.
    pub fn spend_hop(&self) -> Result<u32, BudgetExhausted> {
        let mut turn = self.turn();
        let before = turn.hops;
        let spent = turn.spend_hop(self.budget());
        self.total().hops += u64::from(turn.hops - before);
        spent
    }

    /// Adds the cost of a call, unless the turn has exceeded its cap since the call was admitted: other calls
    /// may have run while this one waited.
    pub fn charge(&self, cost: f64) -> Result<Option<(f64, f64)>, BudgetExhausted> {
        let mut turn = self.turn();
        let before = turn.cost;
        let passed = turn.charge(self.budget(), cost)?;
        self.total().cost += turn.cost - before;
        Ok(passed.map(|cap| (turn.cost, cap)))
    }

    /// Adds a cost to this turn. Returns the cost so far and the cap if a warning is due.
    pub fn spend(&self, cost: f64) -> Option<(f64, f64)> {
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
    pub fn allows(&self, tool: &str, registry: &ToolRegistry) -> bool {
        let same = |listed: &String| {
            let (listed_as, requested_as) = (registry.get(listed), registry.get(tool));
            match (listed_as, requested_as) {
                (Some(listed), Some(requested_tool)) => Arc::ptr_eq(listed, requested_tool),
                _ => false,
            }
        };
        self.terms.allowlist.iter().any(same)
    }

    /// Begins a new turn with full budgets. Returns its number.
    pub fn begin_turn(&self) -> u32 {
        *self.turn() = TurnUsage::default();
        let mut total = self.total();
        total.turns += 1;
        total.turns
    }

    /// Returns true if the session was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Hop budget of a turn.
    pub fn hop_budget(&self) -> u32 {
        self.budget().hops
    }

    /// Cost of this turn.
    pub fn turn_cost(&self) -> f64 {
        self.turn().cost
    }

    /// Records the end of the session.
    pub fn record_end(&self, ledger: &Ledger, reason: &str) -> Result<(), LedgerError> {
        let total = *self.total();
        let data = json!({"reason": reason, "turns": total.turns, "hops": total.hops, "cost": total.cost});
        record(ledger, &self.id, SessionEvent::Closed, &data)
    }

    /// Remaining budgets of this turn.
    pub fn remaining(&self) -> Map<String, Value> {
        let turn = *self.turn();
        let mut remaining = Map::from_iter([("hops".to_owned(), json!(turn.hops_left(self.budget())))]);
        if let Some((_, amount)) = self.budget().cap.mode_and_amount() {
            remaining.insert("cost".to_owned(), json!((amount - turn.cost).max(0.0)));
        }
        remaining
    }

    /// Report for the result of a call: budgets, and the marks around untrusted content.
    pub fn report(&self, content: &str) -> SessionReport {
        let turn = *self.turn();
        SessionReport {
            id: self.id.clone(),
            hops_used: turn.hops,
            hop_budget: self.budget().hops,
            cost: turn.cost,
            cost_cap: self.budget().cap.mode_and_amount().map(|(mode, amount)| {
                let exceeded = turn.cost > amount;
                let prompt = || {
                    format!("This turn has cost {}, which exceeds its cap of {amount}. Continue?", turn.cost)
                };
                let operator_prompt = exceeded.then(prompt);
                CostCapReport { mode: mode.to_owned(), amount, exceeded, operator_prompt }
            }),
            untrusted: UntrustedMarkers::for_content(content),
        }
    }

    /// Refusal of a tool that is not in the allowlist.
    pub fn not_allowed_refusal(&self, tool: &str) -> Refusal {
        let shown = shorten(tool, MAX_QUOTED_CHARS);
        let reason = format!("Tool {} is not in the allowlist of this session", shown.escape_debug());
        let hint = format!("allowed here: {}", self.terms.allowlist_text());
        Refusal::new(&shown, RefusalCode::NotInAllowlist, reason).with_hint(hint)
    }

    /// Refusal of a call for which this turn has no budget.
    pub fn exhausted_refusal(&self, tool: &str, exhausted: BudgetExhausted) -> Refusal {
        let (code, reason) = match exhausted {
            BudgetExhausted::Hops => {
                let hops = self.budget().hops;
                let reason = format!("Hop budget exhausted: all {hops} calls of this turn are used");
                (RefusalCode::HopBudgetExhausted, reason)
            }
            BudgetExhausted::Cost { cap } => {
                let cost = self.turn().cost;
                let reason = format!("Cost cap exceeded: this turn has cost {cost}, the cap is {cap}");
                (RefusalCode::CostCapExceeded, reason)
            }
        };
        let hint = "answer with the results so far; the next turn begins with a full budget";
        Refusal::new(tool, code, reason).with_hint(hint)
    }
}

/// Records an event of a session.
fn record(ledger: &Ledger, id: &str, event: SessionEvent, data: &Value) -> Result<(), LedgerError> {
    let data = redact::shared().redact_value(data);
    let entry = LedgerEntry::Session(SessionEntry { id: id.to_owned(), event, data });
    ledger.append(&entry).map(drop)
}
