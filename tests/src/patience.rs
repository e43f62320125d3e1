//! Waiting for what another process or thread does in its own time.

use std::time::{Duration, Instant};

/// Nothing that is waited for takes this long; a machine that does other things as well may need a good part of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks again until it is so. What never comes fails the test.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    found(what, || so().then_some(()));
}

/// Looks again until there is something to see. What never comes fails the test.
pub fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
