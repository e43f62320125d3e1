//! Delays of refused calls: a throttle for floods of refusals, and padding against a timing side channel.
//!
//! Every refusal is recorded, and a refused call costs its caller nothing. A caller that provokes refusals on
//! purpose could fill the ledger until older records are pruned. A flood of refusals is therefore answered
//! and recorded slowly. The response time of a denial is padded so that it does not reveal if a path exists.
//! Permitted calls are never delayed here.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Refusals that are answered without delay. Bursts are normal and take a few megabytes of the ledger.
const REFUSAL_BURST: u32 = 16 * 1024;
/// Interval between refusals beyond the burst.
const REFUSAL_INTERVAL: Duration = Duration::from_millis(50);

/// Granularity of the response time of a denial that follows the open stage.
const PADDING_STEP: Duration = Duration::from_millis(2);

/// Method by which the paths of a call were opened, and the time at which opening began.
#[derive(Clone, Copy)]
pub(crate) enum Opening {
    /// Opened directly, because the kernel had the paths in memory.
    Cached { began: Instant },
    /// Opened on the blocking pool.
    BlockingPool { began: Instant },
}

/// Pads the response time of a denial. Both the open method and the time depend on what exists at the path,
/// which a caller without access could otherwise measure. Every denial takes a round trip through the
/// blocking pool and a whole multiple of `PADDING_STEP` since opening began.
pub(crate) async fn pad_response(opening: Opening) {
    let began = match opening {
        Opening::Cached { began } => {
            let _ = tokio::task::spawn_blocking(|| {}).await;
            began
        }
        Opening::BlockingPool { began } => began,
    };
    tokio::time::sleep_until((began + round_up_to_step(began.elapsed())).into()).await;
}

fn round_up_to_step(took: Duration) -> Duration {
    let steps = took.as_nanos().div_ceil(PADDING_STEP.as_nanos()).max(1);
    PADDING_STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

/// Throttle for refusals. All callers share it, so that a reconnect does not reset it.
#[derive(Default)]
pub(crate) struct RefusalThrottle {
    /// Theoretical arrival time of the next refusal (GCRA). `None` before the first refusal.
    granted_until: Mutex<Option<Instant>>,
}

impl RefusalThrottle {
    /// Waits until one more refusal may be answered.
    pub(crate) async fn wait_for_turn(&self) {
        let wait = self.next_delay(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn next_delay(&self, now: Instant) -> Duration {
        let mut paid_until = self.granted_until.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = paid_until.map_or(now, |until| until.max(now)) + REFUSAL_INTERVAL;
        *paid_until = Some(turn);
        turn.saturating_duration_since(now).saturating_sub(REFUSAL_INTERVAL * REFUSAL_BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_takes_whole_padding_steps() {
        for (took, expect) in [(0, 2_000), (1, 2_000), (2_000, 2_000), (2_001, 4_000), (9_999, 10_000)] {
            let rounded = round_up_to_step(Duration::from_micros(took));
            assert_eq!(rounded, Duration::from_micros(expect), "{took}");
        }
    }

    #[test]
    fn refusal_flood_is_slowed_until_a_pause() {
        let (interval, now) = (RefusalThrottle::default(), Instant::now());
        for n in 0..REFUSAL_BURST {
            assert_eq!(interval.next_delay(now), Duration::ZERO, "refusal {n}");
        }
        assert_eq!(interval.next_delay(now), REFUSAL_INTERVAL);
        assert_eq!(interval.next_delay(now), REFUSAL_INTERVAL * 2);
        let later = now + REFUSAL_INTERVAL * 5;
        assert_eq!(interval.next_delay(later), Duration::ZERO, "three intervals have passed");
        let much_later = now + REFUSAL_INTERVAL * REFUSAL_BURST * 10;
        let at_once = (0..REFUSAL_BURST).filter(|_| interval.next_delay(much_later).is_zero()).count();
        assert_eq!(at_once, REFUSAL_BURST as usize, "unused refusals beyond the burst are not saved up");
        assert_eq!(interval.next_delay(much_later), REFUSAL_INTERVAL);
    }
}
