//! Clock for the expiry of requests and approvals. It never goes back: not when the system clock is set back,
//! and not across a restart as far as the ledger shows.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// Clock that only moves forward.
#[derive(Debug)]
pub(crate) struct ForwardClock {
    base: Timestamp,
    started_at: Instant,
    /// The latest time that `now` has returned.
    latest: Mutex<Timestamp>,
}

impl ForwardClock {
    /// Creates a clock that starts no earlier than the last ledger record.
    pub(crate) fn starting_after(recorded: Option<Timestamp>) -> Self {
        ForwardClock::at(Timestamp::now(), recorded)
    }

    fn at(now: Timestamp, recorded: Option<Timestamp>) -> Self {
        let base = recorded.map_or(now, |recorded| recorded.max(now));
        ForwardClock { base, started_at: Instant::now(), latest: Mutex::new(base) }
    }

    /// Current time. It follows the monotonic counter, which cannot be set, or the wall clock where that is
    /// ahead: the counter stops while the machine is suspended.
    pub(crate) fn now(&self) -> Timestamp {
        self.now_with_wall_clock(Timestamp::now())
    }

    /// Like `now`, for a given wall clock time. A wall clock that is set back later does not move the result
    /// back.
    pub(super) fn now_with_wall_clock(&self, wall: Timestamp) -> Timestamp {
        let now = saturating_add(self.base, self.started_at.elapsed()).max(wall);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = now.max(*latest);
        *latest
    }

    /// Time left until `then`, or zero.
    pub(crate) fn duration_until(&self, then: Timestamp) -> Duration {
        Duration::try_from(then.duration_since(self.now())).unwrap_or_default()
    }
}

/// Adds a duration, saturating at `Timestamp::MAX`.
pub(crate) fn saturating_add(from: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let recorded = Timestamp::from_second(1_000_000).unwrap();
        let day_before = Timestamp::from_second(1_000_000 - 86_400).unwrap();
        assert!(ForwardClock::at(day_before, Some(recorded)).now() >= recorded);
        let day_after = Timestamp::from_second(1_000_000 + 86_400).unwrap();
        let clock = ForwardClock::at(day_after, Some(recorded));
        assert!(clock.now_with_wall_clock(day_after) >= day_after);
        assert_eq!(clock.duration_until(recorded), Duration::ZERO);
        let year_after = saturating_add(Timestamp::now(), Duration::from_secs(365 * 86_400));
        assert_eq!(clock.now_with_wall_clock(year_after), year_after);
        assert_eq!(clock.now_with_wall_clock(day_after), year_after, "set ahead, and back again");
        assert_eq!(saturating_add(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
    }
}
