//! Limit of open file descriptors of this process. Each connection, run and open file takes some, and the
//! limit that a login shell or launchd sets (1024 or 256) is lower than what the system permits.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Limits to try, highest first. macOS rejects more than `OPEN_MAX`, although its hard limit is unlimited.
const WANTED: [u64; 2] = [65_536, 10_240];

/// Raises the soft limit towards the hard limit. It stays as it is where that is not possible.
pub(crate) fn raise() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let higher = WANTED.into_iter().map(|wanted| wanted.min(hard)).filter(|wanted| *wanted > soft);
    for limit in higher {
        if setrlimit(Resource::RLIMIT_NOFILE, limit, hard).is_ok() {
            tracing::debug!(from = soft, to = limit, "descriptor_limit_raised");
            return;
        }
    }
}

/// Returns the soft limit.
pub(crate) fn current() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft)
}
