//! List of the active calls, with the state of each and a way to stop it. It starts and judges nothing; every
//! stage that waits for a call also waits for its `StopRequest`.

mod stop;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ledger::CallHeader;
use serde::Serialize;
use tool::{CallId, Caller, ToolDefinition};

use stop::Latch;
pub(crate) use stop::{StopRequest, StoppedBy};

use crate::layer::ToolExecutionLayer;

/// Time to wait for a cancelled call to end. Killing a process tree takes a tenth of that.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// State of a call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CallState {
    /// The call is being checked and judged, and its paths are being opened.
    Deciding,
    /// The call waits for operator approval.
    Suspended {
        /// Id of the pending approval.
        approval_id: String,
    },
    /// The call is permitted and waits for a run slot.
    Queued,
    /// The tool runs.
    Running,
}

/// Status of a call that has not ended, as shown to the operator.
#[derive(Clone, Debug, Serialize)]
pub struct CallStatus {
    /// Id of the call in the ledger, the logs and the traces.
    pub call_id: CallId,
    /// Tool name as the caller spelled it.
    pub tool: String,
    /// Current state.
    #[serde(flatten)]
    pub standing: CallState,
    /// Caller.
    pub caller: Caller,
    /// Time the request arrived.
    pub since: Timestamp,
    /// Milliseconds since the request arrived.
    pub age_ms: u64,
    /// True if a stop was requested.
    pub cancelled: bool,
}

/// Result of a request to cancel a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The call has ended and its outcome is recorded.
    Ended,
    /// The stop was requested, but the call has not ended yet.
    Requested,
    /// No active call has this id.
    NotFound,
}

/// Shared state of one call, used by the list and by the pipeline.
pub(crate) struct CallTracker {
    header: Arc<CallHeader>,
    started: Instant,
    state: Mutex<CallState>,
    /// Definition of the tool, set when the tool starts.
    definition: OnceLock<Arc<ToolDefinition>>,
    stop: StopRequest,
    /// Set when the call has ended and is off the list.
    ended: Latch,
    connection_loss: ConnectionLoss,
}

/// Active calls by id. Ids sort by time.
#[derive(Clone, Default)]
pub(crate) struct ActiveCalls(Arc<Mutex<BTreeMap<CallId, Arc<CallTracker>>>>);

/// Effect of a lost connection on its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionLoss {
    /// The call is stopped.
    #[default]
    StopsCall,
    /// The call continues; the caller fetches its result later by the idempotency key.
    LeavesCallRunning,
}

/// Guard held while the caller waits for the result. Dropping it before the call has ended stops the call,
/// unless the call outlives its connection.
pub(crate) struct CallerPresence(Arc<CallTracker>);

/// Guard that removes a call from the list when it is dropped.
pub(crate) struct CallRegistration {
    list: ActiveCalls,
    track: Arc<CallTracker>,
}

impl CallTracker {
    pub(crate) fn new(
        header: Arc<CallHeader>,
        started: Instant,
        stop: StopRequest,
        connection_loss: ConnectionLoss,
    ) -> Arc<Self> {
        Arc::new(CallTracker {
            header,
            started,
            state: Mutex::new(CallState::Deciding),
            definition: OnceLock::new(),
            stop,
            ended: Latch::default(),
            connection_loss,
        })
    }

    pub(crate) fn stop(&self) -> &StopRequest {
        &self.stop
    }

    /// Returns the guard that the waiting caller holds.
    pub(crate) fn attach_caller(self: &Arc<Self>) -> CallerPresence {
        CallerPresence(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> CallStatus {
        let age = self.started.elapsed();
        CallStatus {
            call_id: self.header.call_id,
            tool: self.header.tool.clone(),
            standing: self.state().clone(),
            caller: Caller::clone(&self.header.caller),
            since: Timestamp::now().checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH),
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            cancelled: self.stop.requested_by().is_some(),
        }
    }
}

impl ActiveCalls {
    /// Returns the guard that removes the call from the list at its end.
    pub(crate) fn register(&self, track: &Arc<CallTracker>) -> CallRegistration {
        CallRegistration { list: self.clone(), track: Arc::clone(track) }
    }

    /// Adds a call to the list if it is not there yet.
    pub(crate) fn insert(&self, track: &Arc<CallTracker>) {
        self.lock().entry(track.header.call_id).or_insert_with(|| Arc::clone(track));
    }

    /// Sets the state of a call and adds it to the list.
    pub(crate) fn set_state(&self, track: &Arc<CallTracker>, status: CallState) {
        *track.state() = status;
        self.insert(track);
    }

    /// Marks a call as running.
    pub(crate) fn set_running(&self, track: &Arc<CallTracker>, definition: &Arc<ToolDefinition>) {
        let _ = track.definition.set(Arc::clone(definition));
        self.set_state(track, CallState::Running);
    }

    /// Requests a stop of the running calls whose tools are forbidden.
    pub(crate) fn stop_forbidden(&self, forbidden: impl Fn(&ToolDefinition) -> bool) {
        let list = self.lock();
        let running =
            list.values().filter(|track| track.definition.get().is_some_and(|tool| forbidden(tool)));
        running.for_each(|track| track.stop.request(StoppedBy::Mode));
    }

    /// Requests a stop of all calls of a closed session.
    pub(crate) fn stop_session(&self, session: &str) {
        let list = self.lock();
        let its = list.values().filter(|track| track.header.caller.session.as_deref() == Some(session));
        its.for_each(|track| track.stop.request(StoppedBy::Session));
    }

    /// Status of all calls, oldest first.
    pub(crate) fn all(&self) -> Vec<CallStatus> {
        let mut all: Vec<CallStatus> = self.lock().values().map(|track| track.status()).collect();
        all.sort_by_key(|call| (call.since, call.call_id));
        all
    }

    /// Returns true if the call is active.
    pub(crate) fn has(&self, id: CallId) -> bool {
        self.lock().contains_key(&id)
    }

    fn find(&self, id: CallId) -> Option<Arc<CallTracker>> {
        self.lock().get(&id).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CallId, Arc<CallTracker>>> {
        // The map is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallRegistration {
    fn drop(&mut self) {
        self.list.lock().remove(&self.track.header.call_id);
        self.track.ended.set();
    }
}

impl Drop for CallerPresence {
    fn drop(&mut self) {
        if self.0.connection_loss == ConnectionLoss::StopsCall {
            self.0.stop.request(StoppedBy::LostConnection);
        }
    }
}

impl ToolExecutionLayer {
    /// Calls that have not ended, oldest first.
    pub fn calls(&self) -> Vec<CallStatus> {
        self.active_calls.all()
    }

    /// Cancels a call in any state on behalf of the operator, and waits for its end as long as killing a
    /// process tree may take. The outcome of the call records that the operator cancelled it.
    pub async fn cancel(&self, id: CallId) -> CancelOutcome {
        let Some(track) = self.active_calls.find(id) else { return CancelOutcome::NotFound };
        track.stop.request(StoppedBy::Operator);
        match tokio::time::timeout(CANCEL_WAIT, track.ended.wait()).await {
            Ok(()) => CancelOutcome::Ended,
            Err(_) => CancelOutcome::Requested,
        }
    }
}
