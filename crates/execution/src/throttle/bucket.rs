//! Token bucket: a burst, and a rate at which it refills. Time is an argument.

use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    capacity: f64,
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    pub(crate) fn new(capacity: f64, per_second: f64, now: Instant) -> Self {
        TokenBucket { capacity, per_second, tokens: capacity, at: now }
    }

    /// Time until `cost` can be spent; zero where it can be now.
    pub(crate) fn wait(&mut self, cost: f64, now: Instant) -> Duration {
        self.refill(now);
        // A request that costs more than the bucket holds is admitted when the bucket is full, because it
        // must not wait forever.
        let missing = cost.min(self.capacity) - self.tokens;
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX)
    }

    /// Spends `cost`. The bucket can go below zero, which later requests wait off.
    pub(crate) fn spend(&mut self, cost: f64) {
        self.tokens -= cost;
    }

    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.capacity
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.capacity);
        self.at = self.at.max(now);
    }
}
