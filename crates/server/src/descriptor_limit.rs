//! Limit of open file descriptors of this process. Each connection, run and open file takes some, and the
//! limit that a login shell or launchd sets (1024 or 256) is lower than what the system permits. The limit of
//! connections follows from it.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::serve::MAX_CONTROL_CONNECTIONS;
use crate::settings::ConnectionLimits;

/// Limits to try, highest first. macOS rejects more than `OPEN_MAX`, although its hard limit is unlimited.
const CANDIDATES: [u64; 2] = [65_536, 10_240];

/// Raises the soft limit towards the hard limit. It stays as it is where that is not possible.
pub(crate) fn raise() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let higher = CANDIDATES.into_iter().map(|limit| limit.min(hard)).filter(|limit| *limit > soft);
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

/// Reduces the connection limit so that half of the file descriptors remain for tools, the ledger and the
/// daemon.
pub(crate) fn limit_connections(limits: ConnectionLimits, descriptors: u64) -> ConnectionLimits {
    let max = max_agent_connections(descriptors);
    if limits.max_connections <= max {
        return limits;
    }
    let configured = limits.max_connections;
    tracing::warn!(
        setting = configured,
        max_connections = max,
        descriptors,
        "connections_limited_by_descriptors"
    );
    ConnectionLimits { max_connections: max, unreduced_connections: Some(configured), ..limits }
}

fn max_agent_connections(descriptors: u64) -> usize {
    let half = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
    half.saturating_sub(MAX_CONTROL_CONNECTIONS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::daemon::limits;

    #[test]
    fn setting_reduced_by_descriptors_is_reported() {
        let configured = ConnectionLimits { max_connections: 300, ..limits() };
        let reduced = limit_connections(configured, 256);
        assert_eq!((reduced.max_connections, reduced.unreduced_connections), (112, Some(300)));
        assert_eq!(limit_connections(configured, 1024), configured);
    }

    #[test]
    fn connections_leave_descriptors_for_tools() {
        for (descriptors, expect) in [(64, 16), (256, 112), (1024, 496), (0, 1), (u64::MAX, usize::MAX / 2)] {
            let afforded = max_agent_connections(descriptors);
            assert!(afforded.abs_diff(expect) <= MAX_CONTROL_CONNECTIONS, "{descriptors}: {afforded}");
            assert!(afforded >= 1);
        }
    }
}
