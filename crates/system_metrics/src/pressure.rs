//! Pressure stall information, and a memory pressure level on the scale of macOS for all systems: 1 normal, 2
//! short of memory, 4 critical.

use crate::platform;
use crate::snapshot::{Pressure, Pressures};

/// Returns all pressure values of this system. If the system has no memory pressure level, it is derived from
/// the percentage of free memory.
pub(crate) fn read_pressures(memory_left: Option<f64>) -> Pressures {
    let stalls = |resource: &str| platform::pressure_stalls(resource).and_then(|text| parse_psi(&text));
    Pressures {
        memory_level: platform::memory_level().or_else(|| memory_left.map(level_from_free_percent)),
        memory: stalls("memory"),
        cpu: stalls("cpu"),
        io: stalls("io"),
    }
}

/// Returns the level for a percentage of free memory.
fn level_from_free_percent(percent: f64) -> f64 {
    match percent {
        free_percent if free_percent < 2.0 => CRITICAL,
        free_percent if free_percent < 5.0 => SHORT,
        _ => NORMAL,
    }
}

const NORMAL: f64 = 1.0;
const SHORT: f64 = 2.0;
const CRITICAL: f64 = 4.0;

/// Parses Linux pressure stall information. Old kernels have no system-wide line `full`.
fn parse_psi(text: &str) -> Option<Pressure> {
    let share = |of: &str, over: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(of))?;
        let average = line.split_whitespace().find_map(|word| word.strip_prefix(over)?.strip_prefix('='))?;
        average.parse::<f64>().ok()
    };
    Some(Pressure {
        some_10s: share("some", "avg10")?,
        some_60s: share("some", "avg60").unwrap_or(0.0),
        full_10s: share("full", "avg10"),
        full_60s: share("full", "avg60"),
    })
}

/// Returns the memory pressure level: warning if some tasks were stalled for 20 % of the last ten seconds, critical if all tasks were.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn level_from_psi(text: &str) -> Option<f64> {
    let lost = parse_psi(text)?;
    Some(match (lost.some_10s, lost.full_10s.unwrap_or(0.0)) {
        (_, all) if all >= 20.0 => CRITICAL,
        (some, _) if some >= 20.0 => SHORT,
        _ => NORMAL,
    })
}

/// Parses the memory pressure level of macOS.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
pub(crate) fn level_from_sysctl(text: &str) -> Option<f64> {
    match text.trim() {
        "1" => Some(NORMAL),
        "2" => Some(SHORT),
        "4" => Some(CRITICAL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_formats_of_both_systems_are_parsed() {
        let calm = "some avg10=0.00 avg60=0.12 avg300=0.05 total=1207\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        let short = "some avg10=34.21 avg60=12.00 avg300=3.00 total=99\nfull avg10=8.10 avg60=1.00 avg300=0.20 total=50\n";
        let critical = "some avg10=88.00 avg60=60.00 avg300=20.00 total=99\nfull avg10=61.50 avg60=9.0 avg300=2.0 total=7\n";
        let old = "some avg10=25.00 avg60=0.00 avg300=0.00 total=0\n";
        for (text, expect) in [
            (calm, Some(1.0)),
            (short, Some(2.0)),
            (critical, Some(4.0)),
            (old, Some(2.0)),
            ("", None),
            ("some total=9\n", None),
            ("some avg10=x\n", None),
        ] {
            assert_eq!(level_from_psi(text), expect, "{text}");
        }
        for (text, expect) in [
            ("1\n", Some(1.0)),
            ("2\n", Some(2.0)),
            ("4\n", Some(4.0)),
            ("", None),
            ("sysctl: unknown oid 'kern.memorystatus_vm_pressure_level'\n", None),
        ] {
            assert_eq!(level_from_sysctl(text), expect, "{text}");
        }
        for (left, expect) in [(50.0, 1.0), (5.0, 1.0), (4.9, 2.0), (1.9, 4.0)] {
            assert!((level_from_free_percent(left) - expect).abs() < f64::EPSILON, "{left}");
        }
    }
}
