//! Operator approvals: approval requests, operator decisions and standing rules.
//!
//! A call that needs approval waits here and holds neither a run reservation nor an open file. An approval is
//! bound to the caller and to the effect of the call, is used once, and sends the call through the whole
//! pipeline again. Every change is written to the ledger before it takes effect, one change at a time, so the
//! state in memory always equals the state in the ledger. Only the control socket can decide: no stage of the
//! pipeline calls into `operator.rs`.

mod asking;
mod card;
mod cards;
mod clock;
#[cfg(test)]
mod dice;
mod editing;
mod effect;
mod foresee;
mod hand;
mod operator;
mod pin;
mod queue;
mod refusals;
mod rule;
#[cfg(test)]
mod schedules;
mod shown;
mod standing;
mod told;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ledger::entry::{Approval, ApprovalEvent};
use ledger::{Entry, Ledger, LedgerError, Recovery};
use serde::{Deserialize, Serialize};
use telemetry::metrics::{self, Held, Level};
use telemetry::{ApprovalDecision, Event, Subject, emit};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tool::{Arguments, CallId, Caller};

pub(crate) use asking::{approve, confirm, leave};
pub use card::{Card, CardLine, Fact, ShownChange, Side, Tone};
#[cfg(test)]
pub(crate) use dice::Dice;
pub(crate) use foresee::{Foreseen, Look, foresee};
pub use hand::Asking;
pub(crate) use hand::{Approved, Hand};
pub use operator::{Answer, DecideError, Decided, Lasting, Listed};
pub use pin::{OperatorProof, Pin, PinError};
pub use shown::shown;
pub use standing::StandingRule;

use cards::Cards;
use clock::Clock;
use queue::{Claim, Queue, State, Unusable};
use rule::Rule;

/// Part of an approval request that is stored on disk, outside of the ledger, until the request is decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    card: Card,
    /// The narrowest standing rule that would cover the call, if there is one.
    rule: Option<Rule>,
    /// The arguments, if the operator may edit them. `None` if parts of them are masked.
    arguments: Option<Arguments>,
}

/// Edit of the arguments of a waiting call by the operator.
struct Edit {
    arguments: Arguments,
    answer: oneshot::Sender<Result<Edited, String>>,
}

/// Result of an `ArgumentEdit`.
enum Edited {
    /// The edited call needs approval; holds the id of its new request.
    Asks(String),
    /// The edited call needs no approval.
    Runs,
}

/// All approval requests and standing rules, in memory and in the ledger.
pub(crate) struct Approvals {
    queue: Mutex<Queue>,
    /// Serialises changes: the first decision on disk wins.
    turn: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
    clock: Clock,
    cards: Arc<Cards>,
    /// Identifies this run of the daemon.
    life: String,
    /// Edit channels of the waiting calls by approval id, in the order in which the calls arrived.
    editors: Mutex<HashMap<String, Vec<mpsc::Sender<Edit>>>>,
    pending: Mutex<HashMap<String, Held>>,
    /// Fired at shutdown; ends the wait of every call.
    closing: CancellationToken,
    pin: Pin,
}

impl Approvals {
    /// Restores the state from the ledger. A request whose stored file is missing or was modified is
    /// withdrawn.
    pub(crate) fn restore(ledger: &Ledger, recovery: &Recovery, state: &Path) -> Self {
        let approvals = Approvals {
            queue: Mutex::default(),
            turn: tokio::sync::Mutex::new(()),
            changes: watch::Sender::new(0),
            clock: Clock::not_before(recovery.last_record),
            cards: Arc::new(Cards::at(state.join("approvals"))),
            life: CallId::fresh().to_string(),
            editors: Mutex::default(),
            pending: Mutex::default(),
            closing: CancellationToken::new(),
            pin: Pin::at(state),
        };
        for approval in &recovery.approvals {
            approvals.queue().apply(approval);
        }
        let open: Vec<(String, String, bool)> = approvals
            .queue()
            .asked()
            .iter()
            .filter(|(_, asked)| asked.state.is_open())
            .map(|(id, asked)| ((*id).clone(), asked.terms.card.clone(), asked.state == State::Pending))
            .collect();
        for (id, digest, waits) in open {
            match approvals.cards.read_back(&id, |bytes| ledger.keyed_digest(bytes) == digest) {
                true if waits => approvals.hold(&id),
                true => {}
                false => approvals.lose(ledger, &id),
            }
        }
        approvals.cards.sweep();
        approvals
    }

    /// Withdraws a request whose stored file is missing or was modified.
    fn lose(&self, ledger: &Ledger, id: &str) {
        tracing::warn!(approval_id = id, "an approval is withdrawn: its file is missing or was modified");
        let mut queue = self.queue();
        if let Some(void) = queue.void(id, "its file was missing or modified when the daemon started") {
            // If the append fails, the next start finds the same request and withdraws it again.
            if let Err(error) = ledger.append(&Entry::Approval(void.clone())) {
                tracing::error!(%error, "the withdrawal of an approval could not be recorded");
            }
            queue.apply(&void);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Every statement leaves the queue consistent, so it is valid even after a panic in another thread.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn editors(&self) -> MutexGuard<'_, HashMap<String, Vec<mpsc::Sender<Edit>>>> {
        self.editors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Ends the wait of every call. The requests stay open.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Returns a receiver that is notified of every change to approvals.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns true if an approval requires the operator PIN.
    pub(crate) fn pin_is_set(&self) -> bool {
        self.pin.is_set()
    }

    /// Number of requests that wait for a decision.
    pub(crate) fn pending(&self) -> usize {
        let now = self.now();
        let waits = |asked: &queue::Asked| asked.state == State::Pending && now < asked.terms.expires_at;
        self.queue().asked().iter().filter(|(_, asked)| waits(asked)).count()
    }

    /// Applies a change that was proposed under `change_lock`: to the disk first, then to the queue.
    async fn record(&self, ledger: &Ledger, approval: Approval) -> Result<(), LedgerError> {
        ledger.append_durably(&Entry::Approval(approval.clone())).await?;
        self.queue().apply(&approval);
        self.announce(&approval);
        if !matches!(approval.event, ApprovalEvent::Requested | ApprovalEvent::Granted) {
            self.cards.forget(&approval.id);
        }
        self.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// Records expired requests and rules. Readers call it lazily: expiry takes effect by time, recorded or
    /// not.
    async fn sweep(&self, ledger: &Ledger) {
        let _turn = self.turn.lock().await;
        let expired = self.queue().expired(self.now());
        for approval in expired {
            if let Err(error) = self.record(ledger, approval).await {
                tracing::error!(%error, "the expiry of an approval could not be recorded");
            }
        }
    }

    /// Withdraws a request.
    async fn void(&self, ledger: &Ledger, id: &str, why: &str) {
        let _turn = self.turn.lock().await;
        let proposed = self.queue().void(id, why);
        if let Some(void) = proposed
            && let Err(error) = self.record(ledger, void).await
        {
            tracing::error!(%error, "the withdrawal of an approval could not be recorded");
        }
    }

    /// Consumes an approval, so that it authorises only one run.
    async fn take(
        &self,
        ledger: &Ledger,
        id: &str,
        claim: Claim<'_>,
    ) -> Result<Result<(), Unusable>, LedgerError> {
        let _turn = self.turn.lock().await;
        let proposed = self.queue().take(id, claim, self.now());
        match proposed {
            Ok(used) => self.record(ledger, used).await.map(Ok),
            Err(unusable) => Ok(Err(unusable)),
        }
    }

    /// Checks that this caller can use the approval now.
    fn standing(&self, id: &str, caller: &Caller) -> Result<(), Unusable> {
        self.queue().usable(id, caller, self.now()).map(|_| ())
    }

    fn hold(&self, id: &str) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(id.to_owned(), Level::ApprovalsPending.hold());
    }

    /// Publishes the event and the metrics of a decision, or of a request that ended without one.
    fn announce(&self, approval: &Approval) {
        let decision = match approval.event {
            ApprovalEvent::Requested => return self.hold(&approval.id),
            ApprovalEvent::Granted => ApprovalDecision::Approved,
            ApprovalEvent::Denied => ApprovalDecision::Denied,
            ApprovalEvent::Expired => ApprovalDecision::TimedOut,
            ApprovalEvent::Void => ApprovalDecision::Withdrawn,
            ApprovalEvent::Standing | ApprovalEvent::Used | ApprovalEvent::Revoked | ApprovalEvent::Other => {
                return;
            }
        };
        let held = self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&approval.id);
        let Some(asked) = self.queue().get(&approval.id).cloned() else { return };
        if held.is_none() {
            return;
        }
        let wait = self.now().duration_since(asked.terms.asked_at);
        let wait = std::time::Duration::try_from(wait).unwrap_or_default();
        metrics::approval(decision, wait);
        emit(Event::ApprovalDecided {
            call: subject(&asked.terms.call),
            approval_id: &approval.id,
            decision,
            by: approval.by.as_deref().unwrap_or("nobody"),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        });
    }
}

fn subject(call: &ledger::Call) -> Subject<'_> {
    Subject {
        tool: &call.tool,
        call_id: call.call_id,
        trace: &call.trace,
        mode: call.mode,
        session: call.caller.session.as_deref(),
    }
}
