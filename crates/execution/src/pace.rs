//! How fast refusals are answered. Every refusal is on record, and what is refused costs its caller nothing; so a
//! caller that is refused on purpose could fill the record until older entries must go. A flood of refusals is
//! therefore answered, and recorded, at the pace of a person reading along. What is permitted never waits here.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many refusals in a row are answered at once: bursts happen, and take some megabytes of the record.
const FREE: u32 = 16 * 1024;
/// Beyond them, one in this time.
const BETWEEN: Duration = Duration::from_millis(50);

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
