//! Operator approvals: approval requests, operator decisions and standing rules.
//!
//! A call that needs approval waits here and holds neither a run reservation nor an open file. An approval is
//! bound to the caller and to the effect of the call, is used once, and sends the call through the whole
//! pipeline again. Every change is written to the ledger before it takes effect, one change at a time, so the
//! state in memory always equals the state in the ledger. Only the control socket can decide: no stage of the
//! pipeline calls into `operator.rs`.

mod approval_ref;
mod approval_stage;
mod argument_edit;
mod clock;
mod display_escape;
mod effect;
mod explain_record;
mod forecast;
mod operator;
mod pin;
mod queue;
mod refusals;
mod request;
mod request_store;
mod rule;
#[cfg(test)]
mod schedule_rng;
#[cfg(test)]
mod schedules;
mod standing_rules;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ledger::entry::{ApprovalEvent, ApprovalEventEntry};
use ledger::{Ledger, LedgerEntry, LedgerError, LedgerRecovery};
use serde::{Deserialize, Serialize};
use telemetry::metrics::{self, Gauge, GaugeGuard};
use telemetry::{ApprovalDecision, CallContext, TelemetryEvent, emit};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tool::{Arguments, CallId, Caller};

pub use approval_ref::ApprovalMode;
pub(crate) use approval_ref::{ApprovalBasis, ApprovalRef};
pub(crate) use approval_stage::{approve, consume_approval, withdraw_undecided};
pub use display_escape::escape_for_display;
pub(crate) use forecast::{ApprovalForecast, EffectPolicy, forecast};
pub use operator::{DecideError, DecisionOutcome, ListedApproval, OperatorDecision, StandingRuleRequest};
pub use pin::{OperatorProof, Pin, PinError};
pub use request::{ApprovalFact, ApprovalRequest, ApprovalRequestLine, DiffLineKind, FileDiff, LineStyle};
#[cfg(test)]
pub(crate) use schedule_rng::ScheduleRng;
pub use standing_rules::StandingRule;

use clock::ForwardClock;
use queue::{ApprovalClaim, ApprovalQueue, RequestState, UnusableApproval};
use request_store::RequestStore;
use rule::RuleScope;

/// Part of an approval request that is stored on disk, outside of the ledger, until the request is decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredRequest {
    #[serde(alias = "card")]
    request: ApprovalRequest,
    /// The narrowest standing rule that would cover the call, if there is one.
    rule: Option<RuleScope>,
    /// The arguments, if the operator may edit them. `None` if parts of them are masked.
    arguments: Option<Arguments>,
}

/// Edit of the arguments of a waiting call by the operator.
struct ArgumentEdit {
    arguments: Arguments,
    reply: oneshot::Sender<Result<EditOutcome, String>>,
}

/// Result of an `ArgumentEdit`.
enum EditOutcome {
    /// The edited call needs approval; holds the id of its new request.
    ApprovalRequired(String),
    /// The edited call needs no approval.
    Permitted,
}

/// All approval requests and standing rules, in memory and in the ledger.
pub(crate) struct Approvals {
    queue: Mutex<ApprovalQueue>,
    /// Serialises changes: the first decision on disk wins.
    change_lock: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
    clock: ForwardClock,
    requests: Arc<RequestStore>,
    /// Identifies this run of the daemon.
    instance_id: String,
    /// Edit channels of the waiting calls by approval id, in the order in which the calls arrived.
    edit_channels: Mutex<HashMap<String, Vec<mpsc::Sender<ArgumentEdit>>>>,
    pending_gauges: Mutex<HashMap<String, GaugeGuard>>,
    /// Fired at shutdown; ends the wait of every call.
    closing: CancellationToken,
    pin: Pin,
}

impl Approvals {
    /// Restores the state from the ledger. A request whose stored file is missing or was modified is
    /// withdrawn.
    pub(crate) fn restore(ledger: &Ledger, recovery: &LedgerRecovery, state: &Path) -> Self {
        let approvals = Approvals {
            queue: Mutex::default(),
            change_lock: tokio::sync::Mutex::new(()),
            changes: watch::Sender::new(0),
            clock: ForwardClock::starting_after(recovery.last_record),
            requests: Arc::new(RequestStore::at(state.join("approvals"))),
            instance_id: CallId::fresh().to_string(),
            edit_channels: Mutex::default(),
            pending_gauges: Mutex::default(),
            closing: CancellationToken::new(),
            pin: Pin::at(state),
        };
        for approval in &recovery.approvals {
            approvals.queue().apply(approval);
        }
        let open: Vec<(String, String, bool)> = approvals
            .queue()
            .requests()
            .iter()
            .filter(|(_, asked)| asked.state.is_open())
            .map(|(id, asked)| {
                ((*id).clone(), asked.terms.request_digest.clone(), asked.state == RequestState::Pending)
            })
            .collect();
        for (id, digest, waits) in open {
            match approvals.requests.load(&id, |bytes| ledger.keyed_digest(bytes) == digest) {
                true if waits => approvals.track_pending(&id),
                true => {}
                false => approvals.withdraw_lost(ledger, &id),
            }
        }
        approvals.requests.remove_orphans();
        approvals
    }

    /// Withdraws a request whose stored file is missing or was modified.
    fn withdraw_lost(&self, ledger: &Ledger, id: &str) {
        tracing::warn!(approval_id = id, "an approval is withdrawn: its file is missing or was modified");
        let mut queue = self.queue();
        if let Some(void) = queue.propose_void(id, "its file was missing or modified when the daemon started")
        {
            // If the append fails, the next start finds the same request and withdraws it again.
            if let Err(error) = ledger.append(&LedgerEntry::Approval(void.clone())) {
                tracing::error!(%error, "the withdrawal of an approval could not be recorded");
            }
            queue.apply(&void);
        }
    }

    fn queue(&self) -> MutexGuard<'_, ApprovalQueue> {
        // Every statement leaves the queue consistent, so it is valid even after a panic in another thread.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit_channels(&self) -> MutexGuard<'_, HashMap<String, Vec<mpsc::Sender<ArgumentEdit>>>> {
        self.edit_channels.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn pending_count(&self) -> usize {
        let now = self.now();
        let waits = |asked: &queue::QueuedRequest| {
            asked.state == RequestState::Pending && now < asked.terms.expires_at
        };
        self.queue().requests().iter().filter(|(_, asked)| waits(asked)).count()
    }

    /// Applies a change that was proposed under `change_lock`: to the disk first, then to the queue.
    async fn record(&self, ledger: &Ledger, approval: ApprovalEventEntry) -> Result<(), LedgerError> {
        ledger.append_durably(&LedgerEntry::Approval(approval.clone())).await?;
        self.queue().apply(&approval);
        self.publish(&approval);
        if !matches!(approval.event, ApprovalEvent::Requested | ApprovalEvent::Granted) {
            self.requests.remove(&approval.id);
        }
        self.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }

    /// Records expired requests and rules. Readers call it lazily: expiry takes effect by time, recorded or
    /// not.
    async fn record_expired(&self, ledger: &Ledger) {
        let _turn = self.change_lock.lock().await;
        let expired = self.queue().propose_expiries(self.now());
        for approval in expired {
            if let Err(error) = self.record(ledger, approval).await {
                tracing::error!(%error, "the expiry of an approval could not be recorded");
            }
        }
    }

    /// Withdraws a request.
    async fn void(&self, ledger: &Ledger, id: &str, why: &str) {
        let _turn = self.change_lock.lock().await;
        let proposed = self.queue().propose_void(id, why);
        if let Some(void) = proposed
            && let Err(error) = self.record(ledger, void).await
        {
            tracing::error!(%error, "the withdrawal of an approval could not be recorded");
        }
    }

    /// Consumes an approval, so that it authorises only one run.
    async fn consume(
        &self,
        ledger: &Ledger,
        id: &str,
        claim: ApprovalClaim<'_>,
    ) -> Result<Result<(), UnusableApproval>, LedgerError> {
        let _turn = self.change_lock.lock().await;
        let proposed = self.queue().propose_use(id, claim, self.now());
        match proposed {
            Ok(used) => self.record(ledger, used).await.map(Ok),
            Err(unusable) => Ok(Err(unusable)),
        }
    }

    /// Checks that this caller can use the approval now.
    fn check_usable(&self, id: &str, caller: &Caller) -> Result<(), UnusableApproval> {
        self.queue().find_usable(id, caller, self.now()).map(|_| ())
    }

    fn track_pending(&self, id: &str) {
        let mut pending = self.pending_gauges.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(id.to_owned(), Gauge::ApprovalsPending.increment());
    }

    /// Publishes the event and the metrics of a decision, or of a request that ended without one.
    fn publish(&self, approval: &ApprovalEventEntry) {
        let decision = match approval.event {
            ApprovalEvent::Requested => return self.track_pending(&approval.id),
            ApprovalEvent::Granted => ApprovalDecision::Approved,
            ApprovalEvent::Denied => ApprovalDecision::Denied,
            ApprovalEvent::Expired => ApprovalDecision::TimedOut,
            ApprovalEvent::Void => ApprovalDecision::Withdrawn,
            ApprovalEvent::Standing | ApprovalEvent::Used | ApprovalEvent::Revoked | ApprovalEvent::Other => {
                return;
            }
        };
        let held = self.pending_gauges.lock().unwrap_or_else(PoisonError::into_inner).remove(&approval.id);
        let Some(asked) = self.queue().get(&approval.id).cloned() else { return };
        if held.is_none() {
            return;
        }
        let wait = self.now().duration_since(asked.terms.requested_at);
        let wait = std::time::Duration::try_from(wait).unwrap_or_default();
        metrics::record_approval(decision, wait);
        emit(TelemetryEvent::ApprovalDecided {
            call: event_subject(&asked.terms.call),
            approval_id: &approval.id,
            decision,
            by: approval.by.as_deref().unwrap_or("none"),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        });
    }
}

fn event_subject(call: &ledger::CallHeader) -> CallContext<'_> {
    CallContext {
        tool: &call.tool,
        call_id: call.call_id,
        trace: &call.trace,
        mode: call.mode,
        session: call.caller.session.as_deref(),
    }
}
