//! Versions of nats-server that the fleet supports.

use crate::FleetError;
use crate::policy::version_parts;

/// Refuses servers with known advisories, and those that do not know `sync_interval`.
pub fn check_server_version(version: &str) -> Result<(), FleetError> {
    let refuse = |reason| Err(FleetError::Server { found: version.to_owned(), reason });
    match version_parts(version) {
        [0..=1, ..] | [2, 0..=9, _] => refuse("it does not know `sync_interval` and has known advisories"),
        [2, 10..=11, _] | [2, 12, 0..=6] => refuse("it has advisories of 2026 that later versions fix"),
        [2, 13, _] => refuse("the fixes of 2.12.7 came to the next line with 2.14"),
        // A version that cannot be read is version 0, which is refused above.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_below_the_floor_are_refused_with_a_reason() {
        for refused in ["2.9.10", "2.10.27", "2.12.6", "2.11.99", "1.4.1", "", "latest", "2.13.0"] {
            let error = check_server_version(refused).unwrap_err().to_string();
            assert!(
                error.contains("2.12.7") && error.contains("because it") || error.contains("came to"),
                "{error}"
            );
        }
        for supported in ["2.12.7", "v2.14.0", "2.15.1", "3.0.0-beta.1", "2.12.10"] {
            assert_eq!(check_server_version(supported), Ok(()), "{supported}");
        }
    }
}
