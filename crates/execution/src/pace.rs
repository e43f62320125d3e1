//! How fast refusals are answered. Every refusal is on record, and what is refused costs its caller nothing; so a
//! caller that is refused on purpose could fill the record until older entries must go. A flood of refusals is
//! therefore answered, and recorded, at the pace of a person reading along. Nor does the time of a denial tell what is
//! there. What is permitted never waits here.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many refusals in a row are answered at once: bursts happen, and take some megabytes of the record.
const FREE: u32 = 16 * 1024;
/// Beyond them, one in this time.
const BETWEEN: Duration = Duration::from_millis(50);

/// What a denial takes that came after something was opened, or a multiple of it.
const STEP: Duration = Duration::from_millis(2);

/// How something was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At once: the system had it in memory.
    AtHand,
    /// On a thread that may block.
    OnThread,
}

/// Waits until a denial has taken the same way as any other, and whole steps since it began to open what was named. Both
/// depend on what is there, and whoever may not see it could read it off the clock.
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

/// The turns of refusals, of all callers together: a caller must not gain any by connecting anew.
#[derive(Default)]
pub(crate) struct Pace {
    /// When all turns that were given will have been used up.
    paid_until: Mutex<Option<Instant>>,
}

impl Pace {
    /// Waits for the turn of one refusal.
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
    fn a_denial_takes_whole_steps() {
        for (took, expect) in [(0, 2_000), (1, 2_000), (2_000, 2_000), (2_001, 4_000), (9_999, 10_000)] {
            let rounded = rounded_up(Duration::from_micros(took));
            assert_eq!(rounded, Duration::from_micros(expect), "{took}");
        }
    }

    #[test]
    fn a_flood_is_slowed_down_and_a_pause_makes_good() {
        let (pace, now) = (Pace::default(), Instant::now());
        for n in 0..FREE {
            assert_eq!(pace.wait(now), Duration::ZERO, "refusal {n}");
        }
        assert_eq!(pace.wait(now), BETWEEN);
        assert_eq!(pace.wait(now), BETWEEN * 2);
        let later = now + BETWEEN * 5;
        assert_eq!(pace.wait(later), Duration::ZERO, "three turns have come meanwhile");
        let much_later = now + BETWEEN * FREE * 10;
        let at_once = (0..FREE).filter(|_| pace.wait(much_later).is_zero()).count();
        assert_eq!(at_once, FREE as usize, "no more are saved up than there were");
        assert_eq!(pace.wait(much_later), BETWEEN);
    }
}
