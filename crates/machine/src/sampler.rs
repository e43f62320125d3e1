//! One thread that looks at the machine every few seconds, so that whoever asks is answered at once. It starts when
//! somebody asks first and rests when nobody has asked for a while; one that is stuck on a disk holds up nobody.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::instruments::Instruments;
use crate::snapshot::Snapshot;

/// How often the machine is looked at.
const PERIOD: Duration = Duration::from_secs(5);
/// Between the first two looks: a load needs both.
const FIRST: Duration = Duration::from_millis(250);
/// Nobody asked for so long: nobody needs it.
const REST: Duration = Duration::from_secs(60);

/// Looks at the machine for everybody. Cheap to clone.
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
    /// The one of this process.
    pub fn of_this_process() -> &'static Sampler {
        static SHARED: OnceLock<Sampler> = OnceLock::new();
        SHARED.get_or_init(|| Sampler::every(PERIOD, REST))
    }

    fn every(period: Duration, rest: Duration) -> Sampler {
        let shared = Shared { state: Mutex::default(), bell: Condvar::new(), period, rest };
        Sampler { shared: Arc::new(shared) }
    }

    /// What was seen last, at once; while nothing was seen that is not long past, after waiting up to `patience`.
    pub fn snapshot(&self, patience: Duration) -> Option<Arc<Snapshot>> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state();
        loop {
            state.asked = Some(Instant::now());
            self.keep_looking(&mut state);
            // Two periods and what a look may take: what is older says nothing about now.
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
        // What a panic can leave behind is an old look, and that is told from a new one by its age.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks until nobody asks any more. The next who asks starts anew.
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
    fn whoever_asks_is_answered_from_what_was_seen() {
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
        assert!(Arc::ptr_eq(&first, &again), "nobody waits for another look");
    }

    #[test]
    fn it_rests_when_nobody_asks_and_starts_again_for_whoever_does() {
        let sampler = Sampler::every(Duration::from_millis(100), Duration::from_millis(400));
        assert!(sampler.snapshot(PATIENCE).is_some());
        let deadline = Instant::now() + PATIENCE;
        while sampler.shared.state().looking {
            assert!(Instant::now() < deadline, "it does not rest");
            std::thread::sleep(Duration::from_millis(5));
        }
        let old = sampler.shared.state().latest.clone().unwrap();
        std::thread::sleep(Duration::from_millis(250));
        let new = sampler.snapshot(PATIENCE).unwrap();
        assert!(new.taken > old.taken, "what is long past is not shown");
    }
}
