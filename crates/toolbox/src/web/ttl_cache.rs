//! Small in-memory cache whose entries expire. It avoids repeated requests; it is not an archive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Cache with a time to live and a maximum number of entries. The oldest entry is evicted first.
pub(super) struct TtlCache<V> {
    ttl: Duration,
    max_entries: usize,
    entries: Mutex<VecDeque<(Instant, String, Arc<V>)>>,
}

impl<V> TtlCache<V> {
    pub(super) fn new(fresh_for: Duration, max: usize) -> Self {
        TtlCache { ttl: fresh_for, max_entries: max, entries: Mutex::default() }
    }

    /// Returns the value of a key if it has not expired at `now`.
    pub(super) fn get(&self, key: &str, now: Instant) -> Option<Arc<V>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < self.ttl;
        entries
            .iter()
            .rev()
            .find(|(at, known, _)| known == key && is_fresh(at))
            .map(|(_, _, value)| Arc::clone(value))
    }

    pub(super) fn put(&self, key: String, value: Arc<V>, now: Instant) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(at, known, _)| *known != key && now.saturating_duration_since(*at) < self.ttl);
        entries.push_back((now, key, value));
        while entries.len() > self.max_entries {
            entries.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_and_the_oldest_is_evicted() {
        let result_cache = TtlCache::new(Duration::from_secs(10), 2);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let get = |key: &str, seconds| result_cache.get(key, after(seconds)).map(|value| *value);
        result_cache.put("a".to_owned(), Arc::new(1), start);
        result_cache.put("a".to_owned(), Arc::new(2), after(1));
        result_cache.put("b".to_owned(), Arc::new(3), after(5));
        assert_eq!((get("a", 10), get("a", 11), get("b", 11)), (Some(2), None, Some(3)));
        result_cache.put("c".to_owned(), Arc::new(4), after(6));
        assert_eq!((get("a", 6), get("b", 6), get("c", 6)), (None, Some(3), Some(4)));
    }
}
