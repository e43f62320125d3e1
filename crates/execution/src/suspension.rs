//! Suspended callers. A caller that alone causes the refusals for which a mode rule would fire is suspended
//! instead, so that one caller cannot restrict the others. `modes/watch.rs` decides; the admission stage of a
//! call checks the list.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ledger::entry::NoteEntry;
use ledger::{Ledger, LedgerEntry};
use serde::Serialize;
use serde_json::json;
use telemetry::{TelemetryEvent, emit};
use tool::caller::{CallerKey, EndpointParty};
use tool::{Caller, Refusal, RefusalCode};

use crate::call::PipelineCall;
use crate::layer::ToolExecutionLayer;

/// Time for which a caller is suspended: the longest window of the shipped rules about refusals.
const DURATION: Duration = Duration::from_secs(10 * 60);
/// Callers that may be suspended at a time. Refusals of further ones change the mode: many processes may be one agent.
pub(crate) const MAX_SUSPENDED: usize = 3;

/// Caller that events are attributed to.
#[derive(Clone, Debug)]
pub(crate) struct EventSource {
    pub(crate) key: CallerKey,
    pub(crate) caller: Arc<Caller>,
}

impl EventSource {
    /// Source of the events of a call. The operator's own calls have none: the operator is not suspended.
    pub(crate) fn of(key: CallerKey, caller: &Arc<Caller>) -> Option<Self> {
        let is_agent = caller.endpoint.party() == EndpointParty::Agents;
        is_agent.then(|| EventSource { key, caller: Arc::clone(caller) })
    }
}

/// Suspended caller, as shown to the operator.
#[derive(Clone, Debug, Serialize)]
pub struct SuspendedCaller {
    /// Id for `sinew callers resume`.
    pub id: String,
    /// Caller.
    pub caller: Caller,
    /// Start of the suspension.
    pub since: Timestamp,
    /// Seconds until the suspension ends.
    pub seconds_left: u64,
    /// Rule that would have changed the mode, and the measured values.
    pub reason: String,
}

/// Callers that are suspended now.
#[derive(Default)]
pub(crate) struct Suspensions(Mutex<Vec<Suspension>>);

struct Suspension {
    source: EventSource,
    since: Timestamp,
    until: Instant,
    reason: String,
}

impl Suspensions {
    /// Number of suspended callers.
    pub(crate) fn len(&self) -> usize {
        self.current().len()
    }

    /// Suspends a caller and notifies the operator: in the ledger, as an event, and in the status.
    pub(crate) fn suspend(&self, ledger: &Ledger, source: EventSource, reason: String) {
        let (id, seconds) = (source.key.to_string(), DURATION.as_secs());
        let text = format!("{id} is suspended for {seconds} s, and the mode stays: {reason}");
        record_suspension(ledger, "caller_suspended", &source, text);
        emit(TelemetryEvent::CallerSuspended {
            caller: &id,
            client: source.caller.client.as_deref(),
            reason: &reason,
            seconds,
        });
        let suspension =
            Suspension { source, since: Timestamp::now(), until: Instant::now() + DURATION, reason };
        self.current().push(suspension);
    }

    /// Time until the suspension of this caller ends; `None` if it is not suspended.
    pub(crate) fn time_left(&self, key: CallerKey) -> Option<Duration> {
        let now = Instant::now();
        let list = self.current();
        let own = list.iter().find(|suspension| suspension.source.key == key)?;
        Some(own.until.saturating_duration_since(now))
    }

    fn remove(&self, id: &str) -> Option<Suspension> {
        let mut list = self.current();
        let position = list.iter().position(|suspension| suspension.source.key.to_string() == id)?;
        Some(list.swap_remove(position))
    }

    fn all(&self) -> Vec<SuspendedCaller> {
        let now = Instant::now();
        let shown = |suspension: &Suspension| SuspendedCaller {
            id: suspension.source.key.to_string(),
            caller: Caller::clone(&suspension.source.caller),
            since: suspension.since,
            seconds_left: suspension.until.saturating_duration_since(now).as_secs(),
            reason: suspension.reason.clone(),
        };
        self.current().iter().map(shown).collect()
    }

    /// Refuses a call of a suspended caller.
    pub(crate) fn check(&self, call: &PipelineCall) -> Result<(), Box<Refusal>> {
        let Some(left) = self.time_left(call.caller_key) else { return Ok(()) };
        if EventSource::of(call.caller_key, &call.header.caller).is_none() {
            return Ok(());
        }
        let reason = "this caller is suspended because too many of its calls were refused";
        let refusal =
            Refusal::new(&call.tool_name, RefusalCode::RateLimited, reason).with_detail("caller_suspended");
        let hint = "nothing was run; the operator was notified and can end the suspension earlier";
        let retry_after_ms = u64::try_from(left.as_millis()).ok().map(|left| left.saturating_add(1));
        Err(Box::new(Refusal { retry_after_ms, ..refusal.with_hint(hint) }))
    }

    /// Suspensions that have not ended.
    fn current(&self) -> MutexGuard<'_, Vec<Suspension>> {
        // The list is consistent after every statement, so a panic elsewhere cannot have broken it.
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.is_empty() {
            let now = Instant::now();
            list.retain(|suspension| suspension.until > now);
        }
        list
    }
}

impl ToolExecutionLayer {
    /// Ends the suspension of a caller on request of the operator. Returns false if it is not suspended.
    pub fn resume_caller(&self, id: &str, by: &Caller) -> bool {
        let Some(suspension) = self.suspensions.remove(id) else { return false };
        let text = format!("{id} was resumed by {}", by.display_name());
        tracing::info!(caller = id, "caller_resumed");
        record_suspension(&self.recorder.ledger, "caller_resumed", &suspension.source, text);
        true
    }

    /// Suspended callers, for the operator.
    pub fn suspended_callers(&self) -> Vec<SuspendedCaller> {
        self.suspensions.all()
    }
}

fn record_suspension(ledger: &Ledger, about: &str, source: &EventSource, text: String) {
    let data = json!({"id": source.key.to_string(), "caller": &*source.caller});
    let note = NoteEntry { about: about.to_owned(), text, data };
    if let Err(error) = ledger.append(&LedgerEntry::Note(note)) {
        tracing::error!(%error, "the suspension of a caller could not be recorded");
    }
}
