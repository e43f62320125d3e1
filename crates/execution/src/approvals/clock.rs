//! The time by which questions and answers run out. It never goes back: not when somebody sets the clock back, and not
//! over a restart, as far as the record tells.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// A clock that only goes forward.
#[derive(Debug)]
pub(crate) struct Clock {
    base: Timestamp,
    since: Instant,
    /// The latest time that anybody was told.
    latest: Mutex<Timestamp>,
}

impl Clock {
    /// A clock that starts no earlier than what is on record.
    pub(crate) fn not_before(recorded: Option<Timestamp>) -> Self {
        Clock::at(Timestamp::now(), recorded)
    }

    fn at(now: Timestamp, recorded: Option<Timestamp>) -> Self {
        let base = recorded.map_or(now, |recorded| recorded.max(now));
        Clock { base, since: Instant::now(), latest: Mutex::new(base) }
    }

    /// By the counter, which nobody can set, or by the clock on the wall where that is further: the counter stands still
    /// while the machine sleeps.
    pub(crate) fn now(&self) -> Timestamp {
        self.now_by(Timestamp::now())
    }

    /// The same by what the clock on the wall shows; one that was set back after a look brings nothing back either.
    pub(super) fn now_by(&self, wall: Timestamp) -> Timestamp {
        let now = later(self.base, self.since.elapsed()).max(wall);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = now.max(*latest);
        *latest
    }

    /// How long it is until then.
    pub(crate) fn until(&self, then: Timestamp) -> Duration {
        Duration::try_from(then.duration_since(self.now())).unwrap_or_default()
    }
}

/// A point in time after another; the end of time where there is none.
pub(crate) fn later(from: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_brings_nothing_back() {
        let recorded = Timestamp::from_second(1_000_000).unwrap();
        let day_before = Timestamp::from_second(1_000_000 - 86_400).unwrap();
        assert!(Clock::at(day_before, Some(recorded)).now() >= recorded);
        let day_after = Timestamp::from_second(1_000_000 + 86_400).unwrap();
        let clock = Clock::at(day_after, Some(recorded));
        assert!(clock.now_by(day_after) >= day_after);
        assert_eq!(clock.until(recorded), Duration::ZERO);
        let year_after = later(Timestamp::now(), Duration::from_secs(365 * 86_400));
        assert_eq!(clock.now_by(year_after), year_after);
        assert_eq!(clock.now_by(day_after), year_after, "set ahead, and back again");
        assert_eq!(later(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
    }
}
