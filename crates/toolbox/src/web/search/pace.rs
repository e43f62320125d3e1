//! Rate of requests to a search provider. Requests during a block prolong the block.

use std::time::{Duration, Instant};

use web_content::Engine;

use super::outcome::Outcome;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Initial pause after a block. Blocks last tens of minutes, and a request prolongs them.
const FIRST_BLOCK: Duration = Duration::from_secs(15 * 60);
/// Longest pause that a service may request.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Rate state of one provider.
#[derive(Debug)]
pub(super) struct Pace {
    between: Duration,
    next: Option<Instant>,
    left_alone: Option<(Outcome, Instant)>,
    block: Duration,
}

impl Pace {
    /// Creates the initial state, without a pause.
    pub(super) fn of(engine: Engine) -> Self {
        let between = match engine {
            Engine::DuckduckgoHtml | Engine::DuckduckgoLite | Engine::Brave => Duration::from_secs(1),
            Engine::Searxng | Engine::Tavily => Duration::from_millis(200),
        };
        Pace { between, next: None, left_alone: None, block: FIRST_BLOCK }
    }

    /// Reserves the time of the next request, or returns why the provider is paused and for how long.
    pub(super) fn turn(&mut self, now: Instant) -> Result<Instant, (Outcome, Duration)> {
        if let Some((outcome, until)) = self.left_alone.filter(|(_, until)| *until > now) {
            return Err((outcome, until - now));
        }
        self.left_alone = None;
        let turn = self.next.map_or(now, |next| next.max(now));
        self.next = Some(turn + self.between);
        Ok(turn)
    }

    /// Records an outcome and returns how long the provider is paused for it.
    pub(super) fn note(
        &mut self,
        outcome: Outcome,
        requested_pause: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        let pause = match outcome {
            Outcome::Ok | Outcome::Empty => {
                self.block = FIRST_BLOCK;
                return None;
            }
            Outcome::Blocked => {
                let pause = self.block;
                self.block = (pause * 2).min(HOUR);
                pause
            }
            Outcome::RateLimited => MINUTE,
            Outcome::Quota => HOUR,
            Outcome::Auth | Outcome::ParseChanged => 5 * MINUTE,
            Outcome::Unreachable => MINUTE / 4,
        };
        let pause = requested_pause.unwrap_or(pause).min(LONGEST);
        self.left_alone = Some((outcome, now + pause));
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spaced_and_stop_during_a_block() {
        let mut pace = Pace::of(Engine::DuckduckgoHtml);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!((pace.turn(start), pace.turn(start)), (Ok(start), Ok(at(1))));
        assert_eq!(pace.turn(at(10)), Ok(at(10)));
        assert_eq!(pace.note(Outcome::Ok, None, at(10)), None);
        let quarter = Duration::from_secs(15 * 60);
        assert_eq!(pace.note(Outcome::Blocked, None, at(10)), Some(quarter));
        assert_eq!(pace.turn(at(20)), Err((Outcome::Blocked, quarter - Duration::from_secs(10))));
        assert!(pace.turn(at(10 + 15 * 60)).is_ok());
        assert_eq!(
            pace.note(Outcome::Blocked, None, at(1000)),
            Some(quarter * 2),
            "each block doubles the pause"
        );
        assert_eq!(pace.note(Outcome::Blocked, None, at(1000)), Some(HOUR));
        assert_eq!(pace.note(Outcome::Blocked, None, at(1000)), Some(HOUR));
        pace.note(Outcome::Empty, None, at(9000));
        assert_eq!(pace.note(Outcome::Blocked, None, at(9000)), Some(quarter), "an answer resets the pause");
        let requested_pause = Some(Duration::from_secs(7));
        assert_eq!(pace.note(Outcome::RateLimited, requested_pause, at(9000)), requested_pause);
        let absurd = Some(Duration::from_secs(u64::MAX / 4));
        assert_eq!(pace.note(Outcome::RateLimited, absurd, at(9000)), Some(LONGEST));
    }
}
