//! Open connections of one socket, by caller. Finds an idle connection to close when a new one finds no free slot, so
//! that connections that are merely kept open cannot lock others out.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tool::caller::CallerKey;

use crate::in_flight_requests::InFlightRequests;

/// Silence after which a connection may be closed if its caller holds a large share of the slots.
const IDLE_OF_LARGE_HOLDER: Duration = Duration::from_secs(5);
/// Silence after which any connection may be closed. An agent may be silent for minutes while its model works.
const IDLE_OF_ANY: Duration = Duration::from_secs(600);
/// A caller holds a large share if it holds more than one of this many slots.
const LARGE_SHARE: usize = 8;

/// Open connections of one socket. Clones share the table.
#[derive(Clone)]
pub(crate) struct ConnectionTable(Arc<Mutex<BTreeMap<u64, OpenConnection>>>);

/// Activity of one connection, updated by its handler.
#[derive(Clone)]
pub(crate) struct ConnectionActivity {
    opened: Instant,
    /// Milliseconds from `opened` to the last line that was read.
    last_line_ms: Arc<AtomicU64>,
    /// `ConnectionPin` of the connection.
    pin: Arc<AtomicU8>,
    pub(crate) in_flight: InFlightRequests,
    /// Cancelled when the slot of the idle connection is needed.
    pub(crate) eviction: CancellationToken,
}

/// Reason why an idle connection should stay open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionPin {
    /// None.
    None = 0,
    /// It has subscriptions. Each handshake of MCP creates one, so a caller with many connections may lose them to
    /// another caller.
    Subscribed = 1,
    /// It has worker sessions or running tasks, which would end with it.
    InUse = 2,
}

struct OpenConnection {
    caller: CallerKey,
    activity: ConnectionActivity,
}

/// Guard that removes a connection from the table when it is dropped.
pub(crate) struct TableEntry {
    table: ConnectionTable,
    number: u64,
}

impl Default for ConnectionActivity {
    fn default() -> Self {
        ConnectionActivity {
            opened: Instant::now(),
            last_line_ms: Arc::default(),
            pin: Arc::default(),
            in_flight: InFlightRequests::default(),
            eviction: CancellationToken::new(),
        }
    }
}

impl ConnectionActivity {
    /// Notes that a line was read, and why the connection should stay open.
    pub(crate) fn update(&self, pin: ConnectionPin) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_line_ms.store(elapsed, Ordering::Relaxed);
        self.pin.store(pin as u8, Ordering::Relaxed);
    }

    fn is_subscribed(&self) -> bool {
        self.pin.load(Ordering::Relaxed) == ConnectionPin::Subscribed as u8
    }

    /// Time since the last line; `None` if the connection is in use.
    fn idle_for(&self, now: Instant) -> Option<Duration> {
        let is_used = self.pin.load(Ordering::Relaxed) == ConnectionPin::InUse as u8
            || self.eviction.is_cancelled()
            || !self.in_flight.is_empty();
        let last_line = self.opened + Duration::from_millis(self.last_line_ms.load(Ordering::Relaxed));
        (!is_used).then(|| now.saturating_duration_since(last_line))
    }
}

impl ConnectionTable {
    pub(crate) fn new() -> Self {
        ConnectionTable(Arc::default())
    }

    pub(crate) fn insert(&self, number: u64, caller: CallerKey, activity: ConnectionActivity) -> TableEntry {
        self.lock().insert(number, OpenConnection { caller, activity });
        TableEntry { table: self.clone(), number }
    }

    /// Returns true if the caller has an open connection.
    pub(crate) fn has_connection_of(&self, caller: &CallerKey) -> bool {
        self.lock().values().any(|open| open.caller == *caller)
    }

    /// Closes the connection that has been idle longest, if it may be closed for a new one of this caller. Connections of
    /// a caller with a large share come first, and of those the ones without subscriptions.
    pub(crate) fn evict_idle(&self, caller: &CallerKey, now: Instant) -> bool {
        let table = self.lock();
        let mut held: HashMap<&CallerKey, usize> = HashMap::new();
        for open in table.values() {
            *held.entry(&open.caller).or_default() += 1;
        }
        let is_large = |open: &OpenConnection| {
            held.get(&open.caller).is_some_and(|count| count * LARGE_SHARE > table.len())
        };
        let idle = table.values().filter_map(|open| {
            let (idle_for, is_large) = (open.activity.idle_for(now)?, is_large(open));
            let is_subscribed = open.activity.is_subscribed();
            let may_be_closed = !is_subscribed || (is_large && open.caller != *caller);
            let least = if is_large { IDLE_OF_LARGE_HOLDER } else { IDLE_OF_ANY };
            (may_be_closed && idle_for >= least).then_some(((is_large, !is_subscribed, idle_for), open))
        });
        let victim = idle.max_by_key(|(rank, _)| *rank);
        victim.is_some_and(|((_, _, idle_for), open)| {
            tracing::warn!(caller = %open.caller, ?idle_for, "idle_connection_closed");
            open.activity.eviction.cancel();
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, OpenConnection>> {
        // The map is consistent after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        self.table.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rpc::RequestId;

    #[test]
    fn longest_idle_connection_of_a_large_holder_goes_first() {
        let (table, now) = (ConnectionTable::new(), Instant::now());
        let opened = |ago: u64| ConnectionActivity {
            opened: now.checked_sub(Duration::from_secs(ago)).unwrap(),
            ..ConnectionActivity::default()
        };
        let small = opened(599);
        let large: Vec<ConnectionActivity> = [20, 30, 4].map(opened).into();
        let mut entries = vec![table.insert(0, CallerKey::of_pid(1), small.clone())];
        entries.extend((2..20).map(|pid| table.insert(100 + pid, CallerKey::of_pid(pid as i32), opened(0))));
        entries.extend(
            (1_u64..)
                .zip(&large)
                .map(|(number, activity)| table.insert(number, CallerKey::of_pid(99), activity.clone())),
        );
        let (own, other) = (CallerKey::of_pid(99), CallerKey::of_pid(50));
        let guard = large[0].in_flight.register(RequestId::read(json!(1)).unwrap()).unwrap();
        assert!(table.evict_idle(&own, now) && large[1].eviction.is_cancelled(), "idle for 30 s");
        assert!(!table.evict_idle(&other, now), "one has a request open, one is not idle long enough");
        drop(guard);
        let pin = |activity: &ConnectionActivity, pin: ConnectionPin| {
            activity.pin.store(pin as u8, Ordering::Relaxed);
        };
        pin(&large[0], ConnectionPin::InUse);
        assert!(!table.evict_idle(&other, now), "it has a worker session");
        pin(&large[0], ConnectionPin::Subscribed);
        assert!(!table.evict_idle(&own, now), "a caller keeps its own subscription");
        assert!(table.evict_idle(&other, now) && large[0].eviction.is_cancelled());
        assert!(
            !small.eviction.is_cancelled() && !table.evict_idle(&other, now),
            "an agent may be silent for minutes"
        );
        let later = now + Duration::from_secs(1);
        assert!(table.evict_idle(&own, later) && large[2].eviction.is_cancelled(), "idle for 5 s now");
        pin(&small, ConnectionPin::Subscribed);
        assert!(!table.evict_idle(&other, later), "a subscription of a caller with few connections");
        pin(&small, ConnectionPin::None);
        assert!(table.evict_idle(&own, later) && small.eviction.is_cancelled(), "idle for 600 s now");
        assert!(table.has_connection_of(&CallerKey::of_pid(99)));
        drop(entries);
        assert!(!table.has_connection_of(&CallerKey::of_pid(99)));
    }
}
