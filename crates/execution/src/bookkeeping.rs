//! Limits on ledger records of requests that changed nothing: refusals, sessions, repeated calls,
//! explanations. They share a budget of bytes, per caller and machine-wide, so that they cannot displace the
//! records of effects. Repetitive records and records over the budget are grouped: counted, and written as one
//! record at the end of a window. Decision 73 has the arithmetic.
//!
//! Records of decisions and outcomes are never limited or grouped.

mod groups;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ledger::entry::NoteEntry;
use ledger::{LedgerEntry, LedgerError};
use serde::Serialize;
use serde_json::json;
use telemetry::redact;
use tokio::sync::Notify;
use tool::caller::{CallerKey, EndpointParty};
use tool::{CallId, Caller, RefusalCode};

use crate::call::redact_client_name;
use crate::layer::ToolExecutionLayer;
use crate::recorder::Recorder;
use crate::throttle::{RequestCost, TokenBucket};
use groups::{Group, Groups};

/// Default ledger size limit, used to compute the budget if none is configured.
const USUAL_MAX_BYTES: u64 = 8 << 30;
/// Burst of all callers together, as a share of the ledger's size limit.
const BURST_SHARE: f64 = 1.0 / 32.0;
/// Refill in 30 days, as a share of the ledger's size limit.
const REFILL_SHARE: f64 = 0.35;
const THIRTY_DAYS: f64 = 30.0 * 24.0 * 60.0 * 60.0;
/// Share of one caller in the machine-wide budget.
const CALLER_SHARE: f64 = 0.5;
/// Maximum number of callers with their own budget. Further callers use only the machine-wide budget.
const MAX_CALLERS: usize = 1024;
/// Sealing and framing of a line, which the size of its entry does not include.
const LINE_OVERHEAD: usize = 256;

/// Retry delay while the budget is closed. The ledger prunes old segments once per hour.
const CLOSED_RETRY: Duration = Duration::from_secs(60 * 60);

/// Kind of a record that can be grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Refusal(RefusalCode),
    Malformed,
    /// Another call under the idempotency key of this one.
    Repeat(CallId),
    /// A request over the rate limit of its caller.
    Throttled(&'static str),
}

impl Kind {
    /// Name in the record of a group.
    fn name(self) -> &'static str {
        match self {
            Kind::Refusal(code) => code.as_str(),
            Kind::Malformed => "malformed",
            Kind::Repeat(_) => "repeat",
            Kind::Throttled(method) => method,
        }
    }

    /// Returns the maximum number of records of this kind that are written in full per window, or `None` if
    /// only the budget limits them. Further records are counted. The limit is higher for calls, because a
    /// caller can look up a call id.
    fn max_in_full(self) -> Option<u32> {
        match self {
            Kind::Refusal(RefusalCode::RateLimited | RefusalCode::LedgerUnavailable) | Kind::Repeat(_) => {
                Some(64)
            }
            Kind::Malformed | Kind::Throttled(_) => Some(1),
            Kind::Refusal(_) => None,
        }
    }
}

/// Level of detail with which a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordDetail {
    Full,
    /// Counted only. The count is written at the end of the window.
    Counted,
}

/// A request over a limit, and the time after which it can be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// Time to wait, rounded up.
    pub retry_after_ms: u64,
}

impl From<Duration> for Throttled {
    fn from(wait: Duration) -> Self {
        Throttled { retry_after_ms: u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX) }
    }
}

/// Budget and groups of records without an effect.
pub(crate) struct Bookkeeping {
    state: Mutex<State>,
    /// Signalled when a group begins.
    begun: Notify,
}

struct State {
    /// The ledger's remaining bytes are reserved for records of changes: nothing is written in full.
    closed: bool,
    caller_bucket: TokenBucket,
    machine: TokenBucket,
    callers: HashMap<CallerKey, TokenBucket>,
    groups: Groups,
}

impl Bookkeeping {
    /// Budget for a ledger with this size limit.
    pub(crate) fn new(max_bytes: Option<u64>) -> Self {
        let now = Instant::now();
        #[allow(clippy::cast_precision_loss)]
        // The shares are approximate, so the loss of precision does not matter.
        let max = max_bytes.unwrap_or(USUAL_MAX_BYTES) as f64;
        let bucket = |share: f64| {
            TokenBucket::new(max * BURST_SHARE * share, max * REFILL_SHARE * share / THIRTY_DAYS, now)
        };
        let (machine, caller_bucket) = (bucket(1.0), bucket(CALLER_SHARE));
        let state = State {
            closed: false,
            caller_bucket,
            machine,
            callers: HashMap::new(),
            groups: Groups::default(),
        };
        Bookkeeping { state: Mutex::new(state), begun: Notify::new() }
    }

    /// Closes the budget while the ledger's remaining bytes are reserved for records of changes.
    pub(crate) fn set_closed(&self, closed: bool) {
        self.state().closed = closed;
    }

    /// Charges a record to its caller's budget, or returns the time after which it fits.
    pub(crate) fn charge(&self, caller: &Caller, bytes: usize) -> Result<(), Throttled> {
        if caller.endpoint.party() != EndpointParty::Agents {
            return Ok(());
        }
        self.state().charge(caller.key(), bytes, Instant::now()).map_err(Throttled::from)
    }

    /// Decides the form of a record. The operator's own are always written in full.
    pub(crate) fn form(&self, caller: &Caller, kind: Kind, bytes: usize) -> RecordDetail {
        if caller.endpoint.party() != EndpointParty::Agents {
            return RecordDetail::Full;
        }
        let form = self.state().form(caller, kind, bytes, Instant::now());
        self.begun.notify_one();
        form
    }

    /// Returns when the window of a group has ended.
    pub(crate) async fn due(&self) {
        loop {
            let ends = self.state().groups.next_end();
            match ends {
                None => self.begun.notified().await,
                Some(ends) => tokio::select! {
                    () = tokio::time::sleep_until(ends.into()) => return,
                    () = self.begun.notified() => {}
                },
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every statement leaves the maps consistent, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn charge(&mut self, caller: CallerKey, bytes: usize, now: Instant) -> Result<(), Duration> {
        if self.closed {
            return Err(CLOSED_RETRY);
        }
        let cost = f64::from(u32::try_from(bytes.saturating_add(LINE_OVERHEAD)).unwrap_or(u32::MAX));
        if self.callers.len() >= MAX_CALLERS && !self.callers.contains_key(&caller) {
            self.callers.retain(|_, bucket| !bucket.is_full(now));
        }
        let has_place = self.callers.len() < MAX_CALLERS || self.callers.contains_key(&caller);
        let own = has_place.then(|| self.callers.entry(caller).or_insert_with(|| self.caller_bucket.clone()));
        let wait = self.machine.wait(cost, now);
        match own {
            Some(own) => {
                let wait = wait.max(own.wait(cost, now));
                if !wait.is_zero() {
                    return Err(wait);
                }
                own.spend(cost);
            }
            None if !wait.is_zero() => return Err(wait),
            None => {}
        }
        self.machine.spend(cost);
        Ok(())
    }

    fn form(&mut self, caller: &Caller, kind: Kind, bytes: usize, now: Instant) -> RecordDetail {
        let key = caller.key();
        let most = kind.max_in_full();
        let is_used_up = most.is_some_and(|most| self.groups.in_full(&key, kind, now) >= most);
        if is_used_up || self.charge(key, bytes, now).is_err() {
            self.groups.find_or_begin(key, caller, kind, now).add(1, wall_clock());
            return RecordDetail::Counted;
        }
        if most.is_some() {
            self.groups.find_or_begin(key, caller, kind, now).in_full += 1;
        }
        RecordDetail::Full
    }

    /// Removes and returns the groups whose window has ended. Groups over the budget are merged into machine-wide groups instead.
    fn take_ended(&mut self, now: Instant) -> Vec<Group> {
        let mut ended = self.groups.take_machine_wide(now);
        for group in self.groups.take_of_callers(now).into_iter().filter(|group| group.count > 0) {
            let cost = f64::from(u32::try_from(group.bytes() + LINE_OVERHEAD).unwrap_or(u32::MAX));
            if !self.closed && self.machine.wait(cost, now).is_zero() {
                self.machine.spend(cost);
                ended.push(group);
            } else {
                self.groups.merge(&group, now);
            }
        }
        ended
    }
}

/// Returns the approximate size of an entry in the ledger, in bytes.
pub(crate) fn size_of(entry: &impl Serialize) -> usize {
    serde_json::to_vec(entry).map_or(0, |bytes| bytes.len())
}

impl ToolExecutionLayer {
    /// Admits a request of an agent, or refuses it because its caller or all callers together are over their limit. A
    /// refusal is on record: the first in full, the others of its window as a count.
    pub fn admit_request(
        &self,
        key: CallerKey,
        cost: RequestCost,
        method: &'static str,
        caller: impl FnOnce() -> Caller,
    ) -> Result<(), Throttled> {
        let Err(wait) = self.throttle.admit(key, cost, Instant::now()) else { return Ok(()) };
        let throttled = Throttled::from(wait);
        self.recorder.record_throttled(&caller(), method, throttled);
        Err(throttled)
    }

    /// Charges the bytes of a reply or notification to its caller.
    pub fn charge_reply(&self, caller: CallerKey, bytes: usize) {
        self.throttle.charge_reply(caller, bytes, Instant::now());
    }
}

impl Recorder {
    /// Records that a request was refused because its caller is over the limit.
    pub(crate) fn record_throttled(&self, caller: &Caller, method: &'static str, throttled: Throttled) {
        let data = json!({
            "method": method,
            "caller": redact_client_name(caller.clone()),
            "retry_after_ms": throttled.retry_after_ms,
        });
        let note = NoteEntry {
            about: "rate_limited".to_owned(),
            text: format!("a request of {method} was refused: its caller is over the limit"),
            data: redact::shared().redact_value(&data),
        };
        let entry = LedgerEntry::Note(note);
        if self.bookkeeping.form(caller, Kind::Throttled(method), size_of(&entry)) == RecordDetail::Full {
            report_unwritten(self.ledger.append(&entry));
        }
    }

    /// Writes the counts of groups whose window has ended.
    pub(crate) fn write_ended_groups(&self) {
        let ended = self.bookkeeping.state().take_ended(Instant::now());
        self.write_groups(&ended);
    }

    /// Writes the counts of all groups, before the ledger is closed.
    pub(crate) fn write_all_groups(&self) {
        let all = self.bookkeeping.state().groups.take_all();
        self.write_groups(&all);
    }

    fn write_groups(&self, groups: &[Group]) {
        for group in groups.iter().filter(|group| group.count > 0) {
            report_unwritten(self.ledger.append(&LedgerEntry::Note(group.note())));
        }
    }
}

fn report_unwritten<T>(written: Result<T, LedgerError>) {
    if let Err(error) = written {
        tracing::error!(%error, "refused requests could not be recorded");
    }
}

/// Returns the current system time, for the first and last timestamp of a group.
fn wall_clock() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use tool::CallerEndpoint;

    use super::*;

    const MAX: u64 = 64 << 20;

    fn caller(pid: i32) -> Caller {
        Caller {
            uid: 1,
            pid: Some(pid),
            endpoint: CallerEndpoint::Socket,
            connection: 1,
            client: None,
            session: None,
            account: None,
        }
    }

    #[test]
    fn repetitive_records_are_counted_exactly() {
        let bookkeeping = Bookkeeping::new(Some(MAX));
        let (start, kind) = (Instant::now(), Kind::Refusal(RefusalCode::RateLimited));
        let mut state = bookkeeping.state();
        let full =
            (0..1000).filter(|_| state.form(&caller(1), kind, 500, start) == RecordDetail::Full).count();
        assert_eq!(full, 64);
        assert!(state.take_ended(start).is_empty(), "the window has not ended");
        let ended = state.take_ended(start + groups::WINDOW);
        let [group] = ended.as_slice() else { panic!("{ended:?}") };
        assert_eq!(group.count, 936);
        let note = group.note();
        assert_eq!((&note.data["count"], &note.data["kind"]), (&json!(936), &json!("rate_limited")));
        assert_eq!(note.data["caller"]["pid"], 1);
    }

    #[test]
    fn other_records_are_full_until_the_budget_is_spent() {
        let bookkeeping = Bookkeeping::new(Some(MAX));
        let (start, kind) = (Instant::now(), Kind::Refusal(RefusalCode::PathForbidden));
        let mut state = bookkeeping.state();
        let mut full = |pid| {
            (0..10_000).filter(|_| state.form(&caller(pid), kind, 744, start) == RecordDetail::Full).count()
        };
        // The burst of one caller is a 64th of the limit, that of all a 32nd.
        let (first, second, third) = (full(1), full(2), full(3));
        assert_eq!((first, second, third), (1048, 1048, 1));
        let counted: u64 = state.groups.take_all().iter().map(|group| group.count).sum();
        assert_eq!(counted, 30_000 - 2097, "every one is counted");
    }

    #[test]
    fn thirty_days_of_floods_take_less_than_their_share() {
        let bookkeeping = Bookkeeping::new(Some(MAX));
        let (start, kind) = (Instant::now(), Kind::Refusal(RefusalCode::PathForbidden));
        let mut state = bookkeeping.state();
        let (mut written, mut seen, mut recorded) = (0_u64, 0_u64, 0_u64);
        for hour in 0..720_u64 {
            let now = start + Duration::from_secs(hour * 3600);
            for pid in 0..40 {
                for _ in 0..50 {
                    seen += 1;
                    if state.form(&caller(pid), kind, 1000, now) == RecordDetail::Full {
                        (written, recorded) = (written + 1256, recorded + 1);
                    }
                }
            }
            for group in state.take_ended(now + groups::MACHINE_WINDOW) {
                (written, recorded) = (written + 500, recorded + group.count);
            }
        }
        recorded += state.groups.take_all().iter().map(|group| group.count).sum::<u64>();
        assert_eq!(recorded, seen, "nothing is lost");
        assert!(written < MAX / 2, "{written} of {MAX}");
    }

    #[test]
    fn a_closed_budget_writes_merged_counts_only() {
        let bookkeeping = Bookkeeping::new(Some(MAX));
        bookkeeping.set_closed(true);
        assert!(bookkeeping.charge(&caller(1), 100).is_err(), "no session is opened");
        let (start, mut state) = (Instant::now(), bookkeeping.state());
        for pid in 0..100 {
            let kind = Kind::Refusal(RefusalCode::PathForbidden);
            assert_eq!(state.form(&caller(pid), kind, 100, start), RecordDetail::Counted);
        }
        assert!(state.take_ended(start + groups::WINDOW).is_empty(), "merged");
        let ended = state.take_ended(start + groups::WINDOW + groups::MACHINE_WINDOW);
        assert_eq!(ended.iter().map(|group| group.count).collect::<Vec<_>>(), [100]);
    }
}
