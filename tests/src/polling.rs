//! Polling for the effects of other processes and threads.

use std::time::{Duration, Instant};

/// Timeout far above the duration of every awaited effect, because a loaded machine may need a good part of
/// it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Polls until the condition holds. Fails the test after the timeout.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Polls until `poll` returns a value. Fails the test after the timeout.
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
