//! The calls that have not answered at once: where each stands, and the way to end one before its time. It starts
//! nothing and judges nothing; whoever waits on the road for a call waits for its [`Stop`] too.

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

/// What a call that is told to end is given to do so. A process tree takes a tenth of that.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// Where a call stands that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Standing {
    /// It is being checked and judged, and what it names is being opened.
    Deciding,
    /// It waits for a human.
    Suspended {
        /// The approval it waits for.
        approval_id: String,
    },
    /// It may run, and waits for a place.
    Queued,
    /// The tool runs.
    Running,
}

/// One call that has not ended, as a person sees it.
#[derive(Clone, Debug, Serialize)]
pub struct CallStanding {
    /// Names it everywhere.
    pub call_id: CallId,
    /// The tool, as the caller spelt it.
    pub tool: String,
    /// Where it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// Who asked.
    pub caller: Caller,
    /// When the request arrived.
    pub since: Timestamp,
    /// How long ago that is.
    pub age_ms: u64,
    /// Whether it was told to end.
    pub cancelled: bool,
}

/// What became of the wish to end a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It has ended, and how is on record.
    Ended,
    /// It was told to end, and has not yet.
    Told,
    /// No such call is under way.
    NotFound,
}

/// One call's place on the list, which it shares with whoever walks it.
pub(crate) struct Track {
    id: CallId,
    tool: SharedText,
    caller: Arc<Caller>,
    started: Instant,
    standing: Mutex<Standing>,
    /// What it turned out to call, once it runs.
    definition: OnceLock<Arc<ToolDefinition>>,
    stop: Stop,
    /// Given when the call has ended and is off the list.
    over: Signal,
    /// Given when nobody waits for the answer any longer.
    gone: Signal,
}

/// All of them, by their ids, which sort by time.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<BTreeMap<CallId, Arc<Track>>>>);

/// Whoever waits for the answer of a call: gone when this is dropped.
pub(crate) struct Present(Arc<Track>);

/// Takes a call off the list when it is dropped.
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

    /// Whoever holds this waits for the answer.
    pub(crate) fn present(self: &Arc<Self>) -> Present {
        Present(Arc::clone(self))
    }

    /// Returns when nobody waits for the answer any longer.
    pub(crate) async fn deserted(&self) {
        self.gone.given().await;
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        // A value is put in whole, so a panic elsewhere cannot have broken it.
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
    /// Whoever holds this has the call taken off the list at its end.
    pub(crate) fn until_the_end_of(&self, track: &Arc<Track>) -> Listed {
        Listed { list: self.clone(), track: Arc::clone(track) }
    }

    /// Puts a call on the list; one that is there stays.
    pub(crate) fn show(&self, track: &Arc<Track>) {
        self.list().entry(track.id).or_insert_with(|| Arc::clone(track));
    }

    /// Notes where a call stands now. It is on the list from here on.
    pub(crate) fn enter(&self, track: &Arc<Track>, standing: Standing) {
        *track.standing() = standing;
        self.show(track);
    }

    /// Notes that the tool of a call runs.
    pub(crate) fn run(&self, track: &Arc<Track>, definition: &Arc<ToolDefinition>) {
        let _ = track.definition.set(Arc::clone(definition));
        self.enter(track, Standing::Running);
    }

    /// Tells the running calls of these tools to end.
    pub(crate) fn forbid(&self, forbidden: impl Fn(&ToolDefinition) -> bool) {
        let list = self.list();
        let running =
            list.values().filter(|track| track.definition.get().is_some_and(|tool| forbidden(tool)));
        running.for_each(|track| track.stop.order(StoppedBy::Mode));
    }

    /// Tells the calls of a session that is over to end.
    pub(crate) fn end_session(&self, session: &str) {
        let list = self.list();
        let its = list.values().filter(|track| track.caller.session.as_deref() == Some(session));
        its.for_each(|track| track.stop.order(StoppedBy::Session));
    }

    /// All of them, oldest first.
    pub(crate) fn all(&self) -> Vec<CallStanding> {
        let mut all: Vec<CallStanding> = self.list().values().map(|track| track.seen()).collect();
        all.sort_by_key(|call| (call.since, call.call_id));
        all
    }

    fn find(&self, id: CallId) -> Option<Arc<Track>> {
        self.list().get(&id).map(Arc::clone)
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<CallId, Arc<Track>>> {
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
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
    /// The calls that have not ended, oldest first.
    pub fn calls(&self) -> Vec<CallStanding> {
        self.calls.all()
    }

    /// Ends a call wherever it stands, because a human says so, and waits for its end as long as a process tree may take.
    /// The call's own record says who ended it.
    pub async fn cancel(&self, id: CallId) -> Cancelled {
        let Some(track) = self.calls.find(id) else { return Cancelled::NotFound };
        track.stop.order(StoppedBy::Operator);
        match tokio::time::timeout(TIME_TO_END, track.over.given()).await {
            Ok(()) => Cancelled::Ended,
            Err(_) => Cancelled::Told,
        }
    }
}
