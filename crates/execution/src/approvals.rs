//! A human in charge: questions about calls, their answers, and what is not asked again.
//!
//! A call that needs a human waits here, holding no place and no file. A yes is bound to the caller and to what the call
//! would do, is used up once, and lets the call walk the whole road again. Everything is on record before it holds, in
//! one order; what is in memory is only ever what the record says. Deciding is for the operator's door alone: nothing
//! on the road of a call leads to `operator.rs`.

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

/// What is kept of a question beside the record, until it is decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    card: Card,
    /// The narrowest standing rule that would cover the call, if one can.
    rule: Option<Rule>,
    /// The arguments, where a human may change them: not where parts of them are masked.
    arguments: Option<Arguments>,
}

/// A change that a human wants to make to the arguments of a call that waits.
struct Edit {
    arguments: Arguments,
    answer: oneshot::Sender<Result<Edited, String>>,
}

/// What became of it.
enum Edited {
    /// It is a new question.
    Asks(String),
    /// Nobody needs to be asked about it.
    Runs,
}

/// All questions, on record and in memory.
pub(crate) struct Approvals {
    queue: Mutex<Queue>,
    /// One change at a time: the first that is on disk is the one that counts.
    turn: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
    clock: Clock,
    cards: Arc<Cards>,
    /// Names this daemon's life.
    life: String,
    /// The calls that wait, by the question, whoever came first at the head.
    editors: Mutex<HashMap<String, Vec<mpsc::Sender<Edit>>>>,
    pending: Mutex<HashMap<String, Held>>,
    /// Fired when no call waits any longer, because the daemon stops.
    closing: CancellationToken,
    pin: Pin,
}

impl Approvals {
    /// Goes on where the record left off. A question whose card is gone or was changed cannot be decided any more.
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

    /// A question whose card cannot be shown as it was asked.
    fn lose(&self, ledger: &Ledger, id: &str) {
        tracing::warn!(approval_id = id, "the card of an approval is gone or was changed: it is withdrawn");
        let mut queue = self.queue();
        if let Some(void) = queue.void(id, "its card was gone or changed when the daemon started") {
            // Where that cannot be written the next start finds the same, and does the same.
            if let Err(error) = ledger.append(&Entry::Approval(void.clone())) {
                tracing::error!(%error, "a withdrawn approval could not be recorded");
            }
            queue.apply(&void);
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole after every statement, so a panic elsewhere cannot have broken it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn editors(&self) -> MutexGuard<'_, HashMap<String, Vec<mpsc::Sender<Edit>>>> {
        self.editors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets every call that waits end, and its question stay.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// Follows what happens to questions.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether a yes takes a PIN.
    pub(crate) fn pin_is_set(&self) -> bool {
        self.pin.is_set()
    }

    /// How many wait for an answer.
    pub(crate) fn pending(&self) -> usize {
        let now = self.now();
        let waits = |asked: &queue::Asked| asked.state == State::Pending && now < asked.terms.expires_at;
        self.queue().asked().iter().filter(|(_, asked)| waits(asked)).count()
    }

    /// Makes a change that was proposed under `turn` hold: on disk first.
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

    /// Records whatever has run out. Lazily, by whoever looks: what has run out does not hold, recorded or not.
    async fn sweep(&self, ledger: &Ledger) {
        let _turn = self.turn.lock().await;
        let expired = self.queue().expired(self.now());
        for approval in expired {
            if let Err(error) = self.record(ledger, approval).await {
                tracing::error!(%error, "an approval ran out, but that could not be recorded");
            }
        }
    }

    /// Takes a question back.
    async fn void(&self, ledger: &Ledger, id: &str, why: &str) {
        let _turn = self.turn.lock().await;
        let proposed = self.queue().void(id, why);
        if let Some(void) = proposed
            && let Err(error) = self.record(ledger, void).await
        {
            tracing::error!(%error, "an approval was taken back, but that could not be recorded");
        }
    }

    /// Uses an answer up. What runs after this runs once.
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

    /// How an answer stands for this caller.
    fn standing(&self, id: &str, caller: &Caller) -> Result<(), Unusable> {
        self.queue().usable(id, caller, self.now()).map(|_| ())
    }

    fn hold(&self, id: &str) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(id.to_owned(), Level::ApprovalsPending.hold());
    }

    /// Tells of an answer, or of a question that ended without one.
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
