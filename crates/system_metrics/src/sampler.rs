//! Background thread that samples the system every few seconds, so that requests are answered at once. It
//! starts with the first request and stops after a period without requests. A thread that hangs on a disk
//! does not block requests.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::instruments::Instruments;
use crate::snapshot::Snapshot;

/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(5);
/// Time between the first two samples. A CPU load is a difference, so it needs both.
const FIRST: Duration = Duration::from_millis(250);
/// Time without requests after which the thread stops.
const REST: Duration = Duration::from_secs(60);

/// Shared sampler of system metrics. Cheap to clone.
#[derive(Clone)]
pub struct Sampler {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    bell: Condvar,
    period: Duration,
    rest: Duration,
}

#[derive(Default)]
struct State {
    latest: Option<Arc<Snapshot>>,
    asked: Option<Instant>,
    looking: bool,
}

impl Sampler {
    /// Returns the sampler of this process.
    pub fn of_this_process() -> &'static Sampler {
        static SHARED: OnceLock<Sampler> = OnceLock::new();
        SHARED.get_or_init(|| Sampler::every(PERIOD, REST))
    }

    fn every(period: Duration, rest: Duration) -> Sampler {
        let shared = Shared { state: Mutex::default(), bell: Condvar::new(), period, rest };
        Sampler { shared: Arc::new(shared) }
    }

    /// Returns the latest snapshot, if it is recent and complete. Otherwise waits up to `timeout` for the
    /// next one.
    pub fn snapshot(&self, timeout: Duration) -> Option<Arc<Snapshot>> {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.state();
        loop {
            state.asked = Some(Instant::now());
            self.keep_looking(&mut state);
            // A snapshot older than two periods is outdated; two leave time for the sampling itself.
            let known = state.latest.as_ref().filter(|seen| seen.taken.elapsed() < self.shared.period * 2);
            if let Some(known) = known.filter(|seen| seen.cpu.total_percent.is_some()) {
                return Some(Arc::clone(known));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return known.cloned();
            }
            let waited = self.shared.bell.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn keep_looking(&self, state: &mut State) {
        if std::mem::replace(&mut state.looking, true) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let started =
            std::thread::Builder::new().name("machine-sampler".to_owned()).spawn(move || look(&shared));
        state.looking = started.is_ok();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic can leave only an old snapshot behind, and its age shows that.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples until no request has come for `idle_timeout`. The next request starts a new thread.
fn look(shared: &Shared) {
    let mut instruments = Instruments::new();
    let mut pause = FIRST.min(shared.period);
    loop {
        let seen = Arc::new(instruments.look());
        let mut state = shared.state();
        state.latest = Some(seen);
        shared.bell.notify_all();
        if state.asked.is_none_or(|asked| asked.elapsed() > shared.rest) {
            state.looking = false;
            return;
        }
        drop(state);
        std::thread::sleep(pause);
        pause = shared.period;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn requests_are_answered_from_the_latest_snapshot() {
        let sampler = Sampler::every(Duration::from_secs(5), Duration::from_secs(60));
        let first = sampler.snapshot(PATIENCE).unwrap();
        assert_eq!(first.cpu.per_core_percent.len(), first.cpu.cores);
        assert!(first.cpu.total_percent.is_some_and(|load| (0.0..=100.0).contains(&load)), "{first:?}");
        assert!(first.memory.is_some_and(|memory| memory.used_percent > 0.0 && memory.used_percent < 100.0));
        assert!(
            first.interval_ms > 0 && first.disks.as_ref().is_some_and(|disks| !disks.is_empty()),
            "{first:?}"
        );
        assert!(
            first.network.as_ref().is_some_and(|all| all.iter().any(|one| one.received_per_second.is_some()))
        );
        for (name, is_null) in [
            ("temperatures", first.temperatures.is_none()),
            ("gpu", first.gpu.is_none()),
            ("disks", first.disks.is_none()),
        ] {
            assert_eq!(first.unavailable.contains_key(name), is_null, "a null has its reason: {name}");
        }
        let again = sampler.snapshot(Duration::ZERO).unwrap();
        assert!(Arc::ptr_eq(&first, &again), "a recent snapshot is returned at once");
    }

    #[test]
    fn sampler_stops_when_idle_and_restarts_on_request() {
        let sampler = Sampler::every(Duration::from_millis(100), Duration::from_millis(400));
        assert!(sampler.snapshot(PATIENCE).is_some());
        let deadline = Instant::now() + PATIENCE;
        while sampler.shared.state().looking {
            assert!(Instant::now() < deadline, "the sampler does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        let old = sampler.shared.state().latest.clone().unwrap();
        std::thread::sleep(Duration::from_millis(250));
        let new = sampler.snapshot(PATIENCE).unwrap();
        assert!(new.taken > old.taken, "an outdated snapshot is not returned");
    }
}
