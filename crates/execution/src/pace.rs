//! Delays of refused calls: a throttle for floods of refusals, and padding against a timing side channel.
//!
//! Every refusal is recorded, and a refused call costs its caller nothing. A caller that provokes refusals on
//! purpose could fill the ledger until older records are pruned. A flood of refusals is therefore answered
//! and recorded slowly. The response time of a denial is padded so that it does not reveal if a path exists.
//! Permitted calls are never delayed here.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Refusals that are answered without delay. Bursts are normal and take a few megabytes of the ledger.
const FREE: u32 = 16 * 1024;
/// Interval between refusals beyond the burst.
const BETWEEN: Duration = Duration::from_millis(50);

/// Granularity of the response time of a denial that follows the open stage.
const STEP: Duration = Duration::from_millis(2);

/// Method by which a path was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Opened directly, because the kernel had it in memory.
    AtHand,
    /// Opened on the blocking pool.
    OnThread,
}

/// Pads the response time of a denial. Both the open method and the time depend on what exists at the path,
/// which a caller without access could otherwise measure. Every denial takes a round trip through the
/// blocking pool and a whole multiple of `PADDING_STEP` since opening began.
pub(crate) async fn even_out(began: Instant, way: Way) {
    if way == Way::AtHand {
        let _ = tokio::task::spawn_blocking(|| {}).await;
    }
    tokio::time::sleep_until((began + rounded_up(began.elapsed())).into()).await;
}

fn rounded_up(took: Duration) -> Duration {
    let steps = took.as_nanos().div_ceil(STEP.as_nanos()).max(1);
    STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX))
}

/// Throttle for refusals, shared by all callers: a caller gains nothing by reconnecting.
#[derive(Default)]
pub(crate) struct Pace {
    /// Time at which all granted refusals are used up.
    paid_until: Mutex<Option<Instant>>,
}

impl Pace {
    /// Waits until one more refusal may be answered.
    pub(crate) async fn turn(&self) {
        let wait = self.wait(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn wait(&self, now: Instant) -> Duration {
        let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = paid_until.map_or(now, |until| until.max(now)) + BETWEEN;
        *paid_until = Some(turn);
        turn.saturating_duration_since(now).saturating_sub(BETWEEN * FREE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_takes_whole_padding_steps() {
        for (took, expect) in [(0, 2_000), (1, 2_000), (2_000, 2_000), (2_001, 4_000), (9_999, 10_000)] {
            let rounded = rounded_up(Duration::from_micros(took));
            assert_eq!(rounded, Duration::from_micros(expect), "{took}");
        }
    }

    #[test]
    fn refusal_flood_is_slowed_until_a_pause() {
        let (pace, now) = (Pace::default(), Instant::now());
        for n in 0..FREE {
            assert_eq!(pace.wait(now), Duration::ZERO, "refusal {n}");
        }
        assert_eq!(pace.wait(now), BETWEEN);
        assert_eq!(pace.wait(now), BETWEEN * 2);
        let later = now + BETWEEN * 5;
        assert_eq!(pace.wait(later), Duration::ZERO, "three intervals have passed");
        let much_later = now + BETWEEN * FREE * 10;
        let at_once = (0..FREE).filter(|_| pace.wait(much_later).is_zero()).count();
        assert_eq!(at_once, FREE as usize, "unused refusals beyond the burst are not saved up");
        assert_eq!(pace.wait(much_later), BETWEEN);
    }
}
