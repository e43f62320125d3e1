//! List of the active calls, with the state of each and a way to stop it. It starts and judges nothing; every
//! stage that waits for a call also waits for its `StopRequest`.

mod signal;
mod stop;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;
use tool::{CallId, Caller, SharedText, ToolDefinition};

use signal::Signal;
pub(crate) use stop::{Stop, StoppedBy};

use crate::layer::ToolExecutionLayer;

/// Time to wait for a cancelled call to end. Killing a process tree takes a tenth of that.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// State of a call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Standing {
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
pub struct CallStanding {
    /// Id of the call in the ledger, the logs and the traces.
    pub call_id: CallId,
    /// Tool name as the caller spelled it.
    pub tool: String,
    /// Current state.
    #[serde(flatten)]
    pub standing: Standing,
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
pub enum Cancelled {
    /// The call has ended and its outcome is recorded.
    Ended,
    /// The stop was requested, but the call has not ended yet.
    Told,
    /// No active call has this id.
    NotFound,
}

/// Shared state of one call, used by the list and by the pipeline.
pub(crate) struct Track {
    id: CallId,
    tool: SharedText,
    caller: Arc<Caller>,
    started: Instant,
    standing: Mutex<Standing>,
    /// Definition of the tool, set when the tool starts.
    definition: OnceLock<Arc<ToolDefinition>>,
    stop: Stop,
    /// Set when the call has ended and is off the list.
    over: Signal,
    /// Set when the caller no longer waits for the result.
    gone: Signal,
}

/// Active calls by id. Ids sort by time.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<BTreeMap<CallId, Arc<Track>>>>);

/// Guard held while the caller waits for the result. Dropping it marks the caller as gone.
pub(crate) struct Present(Arc<Track>);

/// Guard that removes a call from the list when it is dropped.
pub(crate) struct Listed {
    list: Calls,
    track: Arc<Track>,
}

impl Track {
    pub(crate) fn new(
        id: CallId,
        tool: SharedText,
        caller: Arc<Caller>,
        started: Instant,
        stop: Stop,
    ) -> Arc<Self> {
        Arc::new(Track {
            id,
            tool,
            caller,
            started,
            standing: Mutex::new(Standing::Deciding),
            definition: OnceLock::new(),
            stop,
            over: Signal::default(),
            gone: Signal::default(),
        })
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns the guard that the waiting caller holds.
    pub(crate) fn present(self: &Arc<Self>) -> Present {
        Present(Arc::clone(self))
    }

    /// Returns when the caller no longer waits for the result.
    pub(crate) async fn deserted(&self) {
        self.gone.given().await;
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it inconsistent.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> CallStanding {
        let age = self.started.elapsed();
        CallStanding {
            call_id: self.id,
            tool: self.tool.to_string(),
            standing: self.standing().clone(),
            caller: Caller::clone(&self.caller),
            since: Timestamp::now().checked_sub(age).unwrap_or(Timestamp::UNIX_EPOCH),
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            cancelled: self.stop.by().is_some(),
        }
    }
}

impl Calls {
    /// Returns the guard that removes the call from the list at its end.
    pub(crate) fn until_the_end_of(&self, track: &Arc<Track>) -> Listed {
        Listed { list: self.clone(), track: Arc::clone(track) }
    }

    /// Adds a call to the list if it is not there yet.
    pub(crate) fn show(&self, track: &Arc<Track>) {
        self.list().entry(track.id).or_insert_with(|| Arc::clone(track));
    }

    /// Sets the state of a call and adds it to the list.
    pub(crate) fn enter(&self, track: &Arc<Track>, standing: Standing) {
        *track.standing() = standing;
        self.show(track);
    }

    /// Marks a call as running.
    pub(crate) fn run(&self, track: &Arc<Track>, definition: &Arc<ToolDefinition>) {
        let _ = track.definition.set(Arc::clone(definition));
        self.enter(track, Standing::Running);
    }

    /// Requests a stop of the running calls whose tools are forbidden.
    pub(crate) fn forbid(&self, forbidden: impl Fn(&ToolDefinition) -> bool) {
        let list = self.list();
        let running =
            list.values().filter(|track| track.definition.get().is_some_and(|tool| forbidden(tool)));
        running.for_each(|track| track.stop.order(StoppedBy::Mode));
    }

    /// Requests a stop of all calls of a closed session.
    pub(crate) fn end_session(&self, session: &str) {
        let list = self.list();
        let its = list.values().filter(|track| track.caller.session.as_deref() == Some(session));
        its.for_each(|track| track.stop.order(StoppedBy::Session));
    }

    /// Status of all calls, oldest first.
    pub(crate) fn all(&self) -> Vec<CallStanding> {
        let mut all: Vec<CallStanding> = self.list().values().map(|track| track.seen()).collect();
        all.sort_by_key(|call| (call.since, call.call_id));
        all
    }

    fn find(&self, id: CallId) -> Option<Arc<Track>> {
        self.list().get(&id).map(Arc::clone)
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<CallId, Arc<Track>>> {
        // The map is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.list.list().remove(&self.track.id);
        self.track.over.give();
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.gone.give();
    }
}

impl ToolExecutionLayer {
    /// Calls that have not ended, oldest first.
    pub fn calls(&self) -> Vec<CallStanding> {
        self.calls.all()
    }

    /// Cancels a call in any state on behalf of the operator, and waits for its end as long as killing a
    /// process tree may take. The outcome of the call records that the operator cancelled it.
    pub async fn cancel(&self, id: CallId) -> Cancelled {
        let Some(track) = self.calls.find(id) else { return Cancelled::NotFound };
        track.stop.order(StoppedBy::Operator);
        match tokio::time::timeout(TIME_TO_END, track.over.given()).await {
            Ok(()) => Cancelled::Ended,
            Err(_) => Cancelled::Told,
        }
    }
}
