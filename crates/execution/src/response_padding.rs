//! Padding of the response time of a denial, so that it does not reveal if a path exists. Permitted calls are never
//! delayed here.

use std::time::{Duration, Instant};

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
}
