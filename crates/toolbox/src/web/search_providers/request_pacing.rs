//! Pacing of requests to a search provider: minimum interval, and pauses after failures.

use std::time::{Duration, Instant};

use tool::CallId;
use web_content::SearchEngine;

use super::provider_outcome::ProviderOutcome;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// Initial pause after a block. Blocks last tens of minutes, and a request prolongs them.
const INITIAL_BLOCK_PAUSE: Duration = Duration::from_secs(15 * 60);
/// Longest pause that a service may request.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// Pause of one provider.
#[derive(Clone, Copy, Debug)]
struct Pause {
    outcome: ProviderOutcome,
    until: Instant,
    /// Call whose retry ignores the pause, because its own network error caused it.
    retried_by: Option<CallId>,
}

/// Minimum interval and current pause of one provider.
#[derive(Debug)]
pub(super) struct RequestPacing {
    min_interval: Duration,
    next_request: Option<Instant>,
    pause: Option<Pause>,
    next_block_pause: Duration,
}

impl RequestPacing {
    /// Creates the initial state, without a pause.
    pub(super) fn for_engine(engine: SearchEngine) -> Self {
        let min_interval = match engine {
            SearchEngine::DuckduckgoHtml | SearchEngine::DuckduckgoLite | SearchEngine::Brave => {
                Duration::from_secs(1)
            }
            SearchEngine::Searxng | SearchEngine::Tavily => Duration::from_millis(200),
        };
        RequestPacing { min_interval, next_request: None, pause: None, next_block_pause: INITIAL_BLOCK_PAUSE }
    }

    /// Reserves the time of the next request, or returns why the provider is paused and for how long.
    pub(super) fn reserve_request(
        &mut self,
        call: CallId,
        now: Instant,
    ) -> Result<Instant, (ProviderOutcome, Duration)> {
        let applies = |pause: &Pause| pause.until > now && pause.retried_by != Some(call);
        if let Some(pause) = self.pause.filter(applies) {
            return Err((pause.outcome, pause.until - now));
        }
        self.pause = None;
        let start = self.next_request.map_or(now, |next| next.max(now));
        self.next_request = Some(start + self.min_interval);
        Ok(start)
    }

    /// Records the outcome of a call and returns how long the provider is paused for it.
    pub(super) fn record_outcome(
        &mut self,
        call: CallId,
        (outcome, requested_pause): (ProviderOutcome, Option<Duration>),
        now: Instant,
    ) -> Option<Duration> {
        let pause = match outcome {
            ProviderOutcome::Ok | ProviderOutcome::Empty => {
                self.next_block_pause = INITIAL_BLOCK_PAUSE;
                return None;
            }
            ProviderOutcome::Blocked => {
                let pause = self.next_block_pause;
                self.next_block_pause = (pause * 2).min(HOUR);
                pause
            }
            ProviderOutcome::RateLimited => MINUTE,
            ProviderOutcome::Quota => HOUR,
            ProviderOutcome::Auth | ProviderOutcome::ParseChanged => 5 * MINUTE,
            ProviderOutcome::Unreachable => MINUTE / 4,
        };
        let pause = requested_pause.unwrap_or(pause).min(MAX_PAUSE);
        let is_transient = outcome == ProviderOutcome::Unreachable && requested_pause.is_none();
        self.pause = Some(Pause { outcome, until: now + pause, retried_by: is_transient.then_some(call) });
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spaced_and_stop_during_a_block() {
        let mut interval = RequestPacing::for_engine(SearchEngine::DuckduckgoHtml);
        let (start, call) = (Instant::now(), CallId::fresh());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            (interval.reserve_request(call, start), interval.reserve_request(call, start)),
            (Ok(start), Ok(at(1)))
        );
        assert_eq!(interval.reserve_request(call, at(10)), Ok(at(10)));
        assert_eq!(interval.record_outcome(call, (ProviderOutcome::Ok, None), at(10)), None);
        let quarter = Duration::from_secs(15 * 60);
        assert_eq!(interval.record_outcome(call, (ProviderOutcome::Blocked, None), at(10)), Some(quarter));
        assert_eq!(
            interval.reserve_request(call, at(20)),
            Err((ProviderOutcome::Blocked, quarter - Duration::from_secs(10)))
        );
        assert!(interval.reserve_request(call, at(10 + 15 * 60)).is_ok());
        assert_eq!(
            interval.record_outcome(call, (ProviderOutcome::Blocked, None), at(1000)),
            Some(quarter * 2),
            "each block doubles the pause"
        );
        assert_eq!(interval.record_outcome(call, (ProviderOutcome::Blocked, None), at(1000)), Some(HOUR));
        assert_eq!(interval.record_outcome(call, (ProviderOutcome::Blocked, None), at(1000)), Some(HOUR));
        interval.record_outcome(call, (ProviderOutcome::Empty, None), at(9000));
        assert_eq!(
            interval.record_outcome(call, (ProviderOutcome::Blocked, None), at(9000)),
            Some(quarter),
            "an answer resets the pause"
        );
        let requested_pause = Some(Duration::from_secs(7));
        assert_eq!(
            interval.record_outcome(call, (ProviderOutcome::RateLimited, requested_pause), at(9000)),
            requested_pause
        );
        let absurd = Some(Duration::from_secs(u64::MAX / 4));
        assert_eq!(
            interval.record_outcome(call, (ProviderOutcome::RateLimited, absurd), at(9000)),
            Some(MAX_PAUSE)
        );
    }

    #[test]
    fn pause_after_a_network_fault_spares_the_retry_of_its_call() {
        let (start, call, other) = (Instant::now(), CallId::fresh(), CallId::fresh());
        let after = |outcome, requested| {
            let mut interval = RequestPacing::for_engine(SearchEngine::Searxng);
            interval.record_outcome(call, (outcome, requested), start);
            (interval.reserve_request(other, start).is_ok(), interval.reserve_request(call, start).is_ok())
        };
        assert_eq!(after(ProviderOutcome::Unreachable, None), (false, true));
        assert_eq!(
            after(ProviderOutcome::Unreachable, Some(MINUTE)),
            (false, false),
            "the provider asked for it"
        );
        assert_eq!(after(ProviderOutcome::Blocked, None), (false, false), "a retry would prolong the block");
    }
}
