//! Memory pressure on one scale, that of macOS: 1 normal, 2 short of memory, 4 critical. The one place where the
//! platforms differ; what they say is parsed by functions that run, and are tested, everywhere.

/// The level the kernel tells, where it tells one.
pub(super) fn level() -> Option<f64> {
    platform::level()
}

/// The level by the percentage of memory that is left.
pub(super) fn by_what_is_left(percent: f64) -> f64 {
    match percent {
        left if left < 2.0 => CRITICAL,
        left if left < 5.0 => SHORT,
        _ => NORMAL,
    }
}

const NORMAL: f64 = 1.0;
const SHORT: f64 = 2.0;
const CRITICAL: f64 = 4.0;

#[cfg(target_os = "linux")]
mod platform {
    pub(super) fn level() -> Option<f64> {
        super::of_stalls(&std::fs::read_to_string("/proc/pressure/memory").ok()?)
    }
}

#[cfg(target_os = "macos")]
mod platform {
    use std::process::{Command, Stdio};

    pub(super) fn level() -> Option<f64> {
        let mut sysctl = Command::new("/usr/sbin/sysctl");
        sysctl.args(["-n", "kern.memorystatus_vm_pressure_level"]).stdin(Stdio::null()).stderr(Stdio::null());
        super::of_sysctl(&String::from_utf8(sysctl.output().ok()?.stdout).ok()?)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod platform {
    pub(super) fn level() -> Option<f64> {
        None
    }
}

/// Of the last ten seconds, the share in which some, or all, tasks waited for memory (Linux's pressure stall
/// information). A fifth of the time lost by some is being short; a fifth lost by all is critical.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn of_stalls(text: &str) -> Option<f64> {
    let share = |of: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(of))?;
        let average = line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
        average.parse::<f64>().ok()
    };
    let some = share("some")?;
    // Old kernels have no such line for the whole machine.
    let all = share("full").unwrap_or(0.0);
    Some(match (some, all) {
        (_, all) if all >= 20.0 => CRITICAL,
        (some, _) if some >= 20.0 => SHORT,
        _ => NORMAL,
    })
}

/// What macOS calls its pressure level.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
fn of_sysctl(text: &str) -> Option<f64> {
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
