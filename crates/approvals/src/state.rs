//! State of all approval requests and standing rules, in memory and in the ledger.
//!
//! A call that needs approval waits and holds neither a run reservation nor an open file. An approval is
//! bound to the caller and to the effect of the call, is used once, and sends the call through the whole
//! pipeline again. Every change is written to the ledger before it takes effect, one change at a time, so the
//! state in memory always equals the state in the ledger. Only the control socket can decide: no stage of the
//! pipeline calls into `operator.rs`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governance::Permit;
use jiff::Timestamp;
use ledger::entry::{ApprovalEvent, ApprovalEventEntry};
use ledger::{CallHeader, Ledger, LedgerEntry, LedgerError, LedgerRecovery};
use serde::{Deserialize, Serialize};
use telemetry::metrics::{self, Gauge, GaugeGuard};
use telemetry::{ApprovalDecision, CallContext, TelemetryEvent, emit};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tool::{Arguments, CallId, Caller};

use crate::clock::ForwardClock;
use crate::edits::EditChannels;
use crate::effect::CallEffect;
use crate::pin::Pin;
use crate::queue::{
    ApprovalClaim, ApprovalQueue, CapacityError, QueuedRequest, RequestState, UnusableApproval,
};
use crate::request::ApprovalRequest;
use crate::request_store::RequestStore;
use crate::rule::RuleScope;

/// Part of an approval request that is stored on disk, outside of the ledger, until the request is decided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredRequest {
    #[serde(alias = "card")]
    pub(crate) request: ApprovalRequest,
    /// The narrowest standing rule that would cover the call, if there is one.
    pub(crate) rule: Option<RuleScope>,
    /// The arguments, if the operator may edit them. `None` if parts of them are masked.
    pub(crate) arguments: Option<Arguments>,
}

/// Time for which a denial also answers the same request of the same caller.
const DENIAL_TTL: Duration = Duration::from_secs(10 * 60);

/// Earlier request of the same caller for the same effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlierRequest {
    /// Pending, or approved and not used.
    Open {
        /// Approval id.
        id: String,
        /// Call that made the request.
        by: CallId,
    },
    /// Denied within the last ten minutes.
    Denied {
        /// Approval id.
        id: String,
        /// Message of the operator.
        message: Option<String>,
    },
}

/// All approval requests and standing rules, in memory and in the ledger.
pub struct Approvals {
    pub(crate) ledger: Arc<Ledger>,
    queue: Mutex<ApprovalQueue>,
    /// Serialises changes: the first decision on disk wins.
    pub(crate) change_lock: tokio::sync::Mutex<()>,
    changes: watch::Sender<u64>,
    pub(crate) clock: ForwardClock,
    pub(crate) requests: Arc<RequestStore>,
    /// Identifies this run of the daemon.
    pub(crate) instance_id: String,
    pub(crate) edit_channels: EditChannels,
    pending_gauges: Mutex<HashMap<String, GaugeGuard>>,
    /// Fired at shutdown; ends the wait of every call.
    closing: CancellationToken,
    pub(crate) pin: Pin,
}

impl Approvals {
    /// Restores the state from the ledger. A request whose stored file is missing or was modified is
    /// withdrawn.
    pub fn restore(ledger: &Arc<Ledger>, recovery: &LedgerRecovery, state: &Path) -> Arc<Self> {
        let approvals = Approvals {
            ledger: Arc::clone(ledger),
            queue: Mutex::default(),
            change_lock: tokio::sync::Mutex::new(()),
            changes: watch::Sender::new(0),
            clock: ForwardClock::starting_after(recovery.last_record),
            requests: Arc::new(RequestStore::at(state.join("approvals"))),
            instance_id: CallId::fresh().to_string(),
            edit_channels: EditChannels::default(),
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
            .filter(|(_, queued)| queued.state.is_open())
            .map(|(id, queued)| {
                ((*id).clone(), queued.terms.request_digest.clone(), queued.state == RequestState::Pending)
            })
            .collect();
        for (id, digest, waits) in open {
            match approvals.requests.load(&id, |bytes| ledger.keyed_digest(bytes) == digest) {
                true if waits => approvals.track_pending(&id),
                true => {}
                false => approvals.withdraw_lost(&id),
            }
        }
        approvals.requests.remove_orphans();
        Arc::new(approvals)
    }

    /// Withdraws a request whose stored file is missing or was modified.
    fn withdraw_lost(&self, id: &str) {
        tracing::warn!(approval_id = id, "an approval is withdrawn: its file is missing or was modified");
        let mut queue = self.queue();
        if let Some(void) = queue.propose_void(id, "its file was missing or modified when the daemon started")
        {
            // If the append fails, the next start finds the same request and withdraws it again.
            if let Err(error) = self.ledger.append(&LedgerEntry::Approval(void.clone())) {
                tracing::error!(%error, "the withdrawal of an approval could not be recorded");
            }
            queue.apply(&void);
        }
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, ApprovalQueue> {
        // Every statement leaves the queue consistent, so it is valid even after a panic in another thread.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Current time of the clock that approvals expire by.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Ends the wait of every call. The requests stay open.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Returns a receiver that is notified of every change to approvals.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns when `close` was called.
    pub async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// The operator PIN.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// Returns true if the request was made for this effect.
    pub fn is_for_effect(&self, id: &str, effect: &CallEffect) -> bool {
        self.queue().get(id).is_some_and(|request| request.digest == effect.digest())
    }

    /// Finds an earlier request of this caller for this effect that answers a new one.
    pub fn find_earlier(&self, effect: &CallEffect, caller: &Caller) -> Option<EarlierRequest> {
        let now = self.now();
        let since = now.checked_sub(DENIAL_TTL).unwrap_or(Timestamp::MIN);
        let queue = self.queue();
        let (id, queued) = queue.find_earlier(effect.digest(), caller, (now, since))?;
        Some(match &queued.state {
            RequestState::Denied { message, .. } => {
                EarlierRequest::Denied { id: id.clone(), message: message.clone() }
            }
            _ => EarlierRequest::Open { id: id.clone(), by: queued.terms.call.call_id },
        })
    }

    /// Returns true if a call waits for the decision on this request.
    pub fn is_awaited(&self, id: &str) -> bool {
        self.edit_channels.first(id).is_some()
    }

    /// Time until a request expires; zero if it is unknown.
    pub fn time_left(&self, id: &str) -> Duration {
        let expires = self.queue().get(id).map(|request| request.terms.expires_at);
        expires.map_or(Duration::ZERO, |expires| self.clock.duration_until(expires))
    }

    /// Id of the standing rule that covers a call, if there is one.
    pub fn covering_rule(
        &self,
        effect: &CallEffect,
        call: &CallHeader,
        permit: &Permit,
        rules: &[String],
    ) -> Option<String> {
        let wanted = effect.call_profile(call, permit, &self.instance_id, rules);
        self.queue().covering_rule(&wanted, self.now()).cloned()
    }

    /// Checks that one more request of this caller can be pending.
    pub fn check_capacity(&self, caller: &Caller) -> Result<(), CapacityError> {
        self.queue().check_capacity(caller, self.now())
    }

    /// Checks that an approval covers this claim, without consuming it.
    pub fn check_claim(&self, id: &str, claim: ApprovalClaim<'_>) -> Result<(), UnusableApproval> {
        self.queue().propose_use(id, claim, self.now()).map(drop)
    }

    /// Ids of the remembered requests that `is_wanted` selects by their call and by being open, oldest first.
    pub fn request_ids(&self, is_wanted: impl Fn(&CallHeader, bool) -> bool) -> Vec<String> {
        let queue = self.queue();
        let wanted = |request: &QueuedRequest| is_wanted(&request.terms.call, request.state.is_open());
        queue
            .requests()
            .into_iter()
            .filter(|(_, request)| wanted(request))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Moves the clock forward to a wall clock time. It never moves back.
    pub fn advance_clock(&self, wall: Timestamp) {
        self.clock.now_with_wall_clock(wall);
    }

    /// Number of requests that wait for a decision.
    pub fn pending_count(&self) -> usize {
        let now = self.now();
        let waits =
            |queued: &QueuedRequest| queued.state == RequestState::Pending && now < queued.terms.expires_at;
        self.queue().requests().iter().filter(|(_, queued)| waits(queued)).count()
    }

    /// Applies a change that was proposed under `change_lock`: to the disk first, then to the queue.
    pub(crate) async fn record(&self, approval: ApprovalEventEntry) -> Result<(), LedgerError> {
        self.ledger.append_durably(&LedgerEntry::Approval(approval.clone())).await?;
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
    pub async fn record_expired(&self) {
        let _guard = self.change_lock.lock().await;
        let expired = self.queue().propose_expiries(self.now());
        for approval in expired {
            if let Err(error) = self.record(approval).await {
                tracing::error!(%error, "the expiry of an approval could not be recorded");
            }
        }
    }

    /// Withdraws a request.
    pub async fn void(&self, id: &str, reason: &str) {
        let _guard = self.change_lock.lock().await;
        let proposed = self.queue().propose_void(id, reason);
        if let Some(void) = proposed
            && let Err(error) = self.record(void).await
        {
            tracing::error!(%error, "the withdrawal of an approval could not be recorded");
        }
    }

    /// Consumes an approval, so that it authorises only one run.
    pub async fn consume(
        &self,
        id: &str,
        claim: ApprovalClaim<'_>,
    ) -> Result<Result<(), UnusableApproval>, LedgerError> {
        let _guard = self.change_lock.lock().await;
        let proposed = self.queue().propose_use(id, claim, self.now());
        match proposed {
            Ok(used) => self.record(used).await.map(Ok),
            Err(unusable) => Ok(Err(unusable)),
        }
    }

    /// Checks that this caller can use the approval now.
    pub fn check_usable(&self, id: &str, caller: &Caller) -> Result<(), UnusableApproval> {
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
        let gauge = self.pending_gauges.lock().unwrap_or_else(PoisonError::into_inner).remove(&approval.id);
        let Some(queued) = self.queue().get(&approval.id).cloned() else { return };
        if gauge.is_none() {
            return;
        }
        let wait = self.now().duration_since(queued.terms.requested_at);
        let wait = Duration::try_from(wait).unwrap_or_default();
        metrics::record_approval(decision, wait);
        emit(TelemetryEvent::ApprovalDecided {
            call: event_subject(&queued.terms.call),
            approval_id: &approval.id,
            decision,
            by: approval.by.as_deref().unwrap_or("none"),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        });
    }
}

pub(crate) fn event_subject(call: &CallHeader) -> CallContext<'_> {
    CallContext {
        tool: &call.tool,
        call_id: call.call_id,
        trace: &call.trace,
        mode: call.mode,
        session: call.caller.session.as_deref(),
    }
}
