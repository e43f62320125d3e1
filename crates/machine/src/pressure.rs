//! How much time is lost by waiting, and for memory one scale for all systems, that of macOS: 1 normal, 2 short of
//! memory, 4 critical.

use crate::platform;
use crate::snapshot::{Pressure, Pressures};

/// All that this system tells. Where it has no level for memory there is one by what is left of it, in percent.
pub(crate) fn all(memory_left: Option<f64>) -> Pressures {
    let stalls = |what: &str| platform::stalls(what).and_then(|text| shares(&text));
    Pressures {
        memory_level: platform::memory_level().or_else(|| memory_left.map(by_what_is_left)),
        memory: stalls("memory"),
        cpu: stalls("cpu"),
        io: stalls("io"),
    }
}

/// The level by the percentage of memory that is left.
fn by_what_is_left(percent: f64) -> f64 {
    match percent {
        left if left < 2.0 => CRITICAL,
        left if left < 5.0 => SHORT,
        _ => NORMAL,
    }
}

const NORMAL: f64 = 1.0;
const SHORT: f64 = 2.0;
const CRITICAL: f64 = 4.0;

/// Linux's pressure stall information. Old kernels have no line `full` for the whole machine.
fn shares(text: &str) -> Option<Pressure> {
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

/// A fifth of the last ten seconds lost by some tasks is being short of memory; a fifth lost by all is critical.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn of_stalls(text: &str) -> Option<f64> {
    let lost = shares(text)?;
    Some(match (lost.some_10s, lost.full_10s.unwrap_or(0.0)) {
        (_, all) if all >= 20.0 => CRITICAL,
        (some, _) if some >= 20.0 => SHORT,
        _ => NORMAL,
    })
}

/// What macOS calls its pressure level.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
pub(crate) fn of_sysctl(text: &str) -> Option<f64> {
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
    fn both_kernels_words_are_understood() {
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
            assert_eq!(of_stalls(text), expect, "{text}");
        }
        for (text, expect) in [
            ("1\n", Some(1.0)),
            ("2\n", Some(2.0)),
            ("4\n", Some(4.0)),
            ("", None),
            ("sysctl: unknown oid 'kern.memorystatus_vm_pressure_level'\n", None),
        ] {
            assert_eq!(of_sysctl(text), expect, "{text}");
        }
        for (left, expect) in [(50.0, 1.0), (5.0, 1.0), (4.9, 2.0), (1.9, 4.0)] {
            assert!((by_what_is_left(left) - expect).abs() < f64::EPSILON, "{left}");
        }
    }
}
