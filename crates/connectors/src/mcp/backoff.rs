//! Exponential backoff for a server that keeps failing, so that not every call restarts it.

use std::time::{Duration, Instant};

use tool::{Failure, FailureKind};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Failures without a pause: a single failure may be an accident.
const FORGIVEN: u32 = 1;

/// Consecutive failures of a server and the time of the next attempt.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

impl Backoff {
    pub(crate) fn worked(&mut self) {
        *self = Backoff::default();
    }

    pub(crate) fn failed(&mut self, now: Instant, why: &str) {
        self.failures = self.failures.saturating_add(1);
        self.why = why.chars().take(400).collect();
        let doublings = self.failures.saturating_sub(FORGIVEN);
        let pause = FIRST.saturating_mul(1 << doublings.saturating_sub(1).min(6)).min(LONGEST);
        self.until = (doublings > 0).then(|| now + pause);
    }

    pub(crate) fn may_try(&self, now: Instant) -> Result<(), Failure> {
        match self.until.map(|until| until.saturating_duration_since(now)) {
            Some(left) if !left.is_zero() => {
                let (failures, seconds) = (self.failures, left.as_secs_f64());
                let message = format!(
                    "the server failed {failures} times in a row; the next attempt is in {seconds:.0} s"
                );
                Err(Failure::new(FailureKind::Transient, message).hint(format!("last failure: {}", self.why)))
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
        let mut backoff = Backoff::default();
        for (failures, pause) in [(1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (6, 16), (7, 32), (8, 60), (40, 60)]
        {
            while backoff.failures < failures {
                backoff.failed(now, "why");
            }
            let after = |seconds| backoff.may_try(now + Duration::from_secs(seconds)).is_ok();
            assert!(after(pause), "{failures}");
            assert!(pause == 0 || !after(pause - 1), "{failures}");
        }
        backoff.worked();
        assert!(backoff.may_try(now).is_ok());
    }
}
