//! Background thread that samples the system every few seconds, so that requests are answered at once. It
//! starts with the first request and stops after a period without requests. A thread that hangs on a disk
//! does not block requests.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::probe::MetricsProbe;
use crate::snapshot::SystemSnapshot;

/// Time between two samples.
const SAMPLE_PERIOD: Duration = Duration::from_secs(5);
/// Time between the first two samples. A CPU load is a difference, so it needs both.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);
/// Time without requests after which the thread stops.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Shared sampler of system metrics. Cheap to clone.
#[derive(Clone)]
pub struct SystemSampler {
    shared: Arc<SamplerShared>,
}

struct SamplerShared {
    state: Mutex<SamplerState>,
    updated: Condvar,
    period: Duration,
    idle_timeout: Duration,
}

#[derive(Default)]
struct SamplerState {
    latest: Option<Arc<SystemSnapshot>>,
    last_request: Option<Instant>,
    running: bool,
}

impl SystemSampler {
    /// Returns the sampler of this process.
    pub fn global() -> &'static SystemSampler {
        static SHARED: OnceLock<SystemSampler> = OnceLock::new();
        SHARED.get_or_init(|| SystemSampler::with_period(SAMPLE_PERIOD, IDLE_TIMEOUT))
    }

    fn with_period(period: Duration, idle_timeout: Duration) -> SystemSampler {
        let shared = SamplerShared { state: Mutex::default(), updated: Condvar::new(), period, idle_timeout };
        SystemSampler { shared: Arc::new(shared) }
    }

    /// Returns the latest snapshot, if it is recent and complete. Otherwise waits up to `timeout` for the
    /// next one.
    pub fn snapshot(&self, timeout: Duration) -> Option<Arc<SystemSnapshot>> {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.lock_state();
        loop {
            state.last_request = Some(Instant::now());
            self.ensure_running(&mut state);
            // A snapshot older than two periods is outdated; two leave time for the sampling itself.
            let known =
                state.latest.as_ref().filter(|sample| sample.taken.elapsed() < self.shared.period * 2);
            if let Some(known) = known.filter(|sample| sample.cpu.total_percent.is_some()) {
                return Some(Arc::clone(known));
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return known.cloned();
            }
            let waited = self.shared.updated.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ensure_running(&self, state: &mut SamplerState) {
        if std::mem::replace(&mut state.running, true) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name("machine-sampler".to_owned())
            .spawn(move || sample_until_idle(&shared));
        state.running = started.is_ok();
    }
}

impl SamplerShared {
    fn lock_state(&self) -> MutexGuard<'_, SamplerState> {
        // A panic can leave only an old snapshot behind, and its age shows that.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples until no request has come for `idle_timeout`. The next request starts a new thread.
fn sample_until_idle(shared: &SamplerShared) {
    let mut instruments = MetricsProbe::new();
    let mut pause = FIRST_INTERVAL.min(shared.period);
    loop {
        let sample = Arc::new(instruments.sample());
        let mut state = shared.lock_state();
        state.latest = Some(sample);
        shared.updated.notify_all();
        if state.last_request.is_none_or(|last_request| last_request.elapsed() > shared.idle_timeout) {
            state.running = false;
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

    const TIMEOUT: Duration = Duration::from_secs(20);

    #[test]
    fn requests_are_answered_from_the_latest_snapshot() {
        let sampler = SystemSampler::with_period(Duration::from_secs(5), Duration::from_secs(60));
        let first = sampler.snapshot(TIMEOUT).unwrap();
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
            ("load", first.load.is_none()),
            ("cpu", first.cpu.cores == 0),
            ("memory", first.memory.is_none()),
        ] {
            assert_eq!(first.unavailable.contains_key(name), is_null, "a null has its reason: {name}");
        }
        let again = sampler.snapshot(Duration::ZERO).unwrap();
        assert!(Arc::ptr_eq(&first, &again), "a recent snapshot is returned at once");
    }

    #[test]
    fn sampler_stops_when_idle_and_restarts_on_request() {
        let sampler = SystemSampler::with_period(Duration::from_millis(100), Duration::from_millis(400));
        assert!(sampler.snapshot(TIMEOUT).is_some());
        let deadline = Instant::now() + TIMEOUT;
        while sampler.shared.lock_state().running {
            assert!(Instant::now() < deadline, "the sampler does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        let old = sampler.shared.lock_state().latest.clone().unwrap();
        std::thread::sleep(Duration::from_millis(250));
        let new = sampler.snapshot(TIMEOUT).unwrap();
        assert!(new.taken > old.taken, "an outdated snapshot is not returned");
    }
}
