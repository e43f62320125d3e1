//! Exponential backoff for a server that keeps failing, so that not every call restarts it.

use std::time::{Duration, Instant};

use tool::{Failure, FailureKind};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Failures without a pause: a single failure may be an accident.
const FAILURES_WITHOUT_PAUSE: u32 = 1;

/// Consecutive failures of a server and the time of the next attempt.
#[derive(Debug, Default)]
pub(crate) struct ServerBackoff {
    failures: u32,
    until: Option<Instant>,
    reason: String,
}

impl ServerBackoff {
    pub(crate) fn record_success(&mut self) {
        *self = ServerBackoff::default();
    }

    pub(crate) fn record_failure(&mut self, now: Instant, reason: &str) {
        self.failures = self.failures.saturating_add(1);
        self.reason = reason.chars().take(400).collect();
        let doublings = self.failures.saturating_sub(FAILURES_WITHOUT_PAUSE);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings.saturating_sub(1).min(6)).min(MAX_PAUSE);
        self.until = (doublings > 0).then(|| now + pause);
    }

    pub(crate) fn check_ready(&self, now: Instant) -> Result<(), Failure> {
        match self.until.map(|until| until.saturating_duration_since(now)) {
            Some(remaining) if !remaining.is_zero() => {
                let (failures, seconds) = (self.failures, remaining.as_secs_f64());
                let message = format!(
                    "the server failed {failures} times in a row; the next attempt is in {seconds:.0} s"
                );
                let failure = Failure::new(FailureKind::Transient, message);
                let hint = format!("last failure: {}", self.reason);
                Err(Failure { retry_after: Some(remaining), ..failure.with_hint(hint) })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_minute_and_reset_on_success() {
        let now = Instant::now();
        let mut backoff = ServerBackoff::default();
        for (failures, pause) in [(1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (6, 16), (7, 32), (8, 60), (40, 60)]
        {
            while backoff.failures < failures {
                backoff.record_failure(now, "why");
            }
            let after = |seconds| backoff.check_ready(now + Duration::from_secs(seconds)).is_ok();
            assert!(after(pause), "{failures}");
            assert!(pause == 0 || !after(pause - 1), "{failures}");
        }
        backoff.record_success();
        assert!(backoff.check_ready(now).is_ok());
    }
}
