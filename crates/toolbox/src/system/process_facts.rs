//! Facts about a process, the same on all platforms. Arguments and environment variables are not included,
//! because they often contain secrets.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// State of one process at one time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct ProcessFacts {
    /// Process id.
    pub(super) pid: i64,
    /// Start time (RFC 3339, to 10 ms). A pid can be reused; pid and start time together identify a process.
    pub(super) started_at: String,
    /// Process name.
    pub(super) name: String,
    /// `running`, `sleeping`, `waiting` (for I/O), `stopped`, `zombie`, `idle` or `unknown`.
    pub(super) state: &'static str,
    /// Parent process id.
    pub(super) parent_pid: Option<i64>,
    /// Numeric id of the user it runs as.
    pub(super) user_id: Option<u32>,
    /// Seconds since it started.
    pub(super) uptime_seconds: f64,
    /// CPU time used so far.
    pub(super) cpu_seconds: Option<f64>,
    /// CPU usage during the sample; 100 is one full processor.
    pub(super) cpu_percent: Option<f64>,
    /// Resident memory.
    pub(super) memory_bytes: Option<u64>,
    /// Number of threads.
    pub(super) threads: Option<u64>,
    /// Number of open files and sockets.
    pub(super) open_files: Option<u64>,
    /// True if it is Sinew itself.
    pub(super) is_sinew: bool,
    /// Reasons why values are null, by field name.
    pub(super) unavailable: BTreeMap<&'static str, String>,
}

/// Formats a time in seconds since the epoch as RFC 3339, to 10 ms.
pub(super) fn format_seconds(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation)] // far from the ends of an i64
    let millis = (seconds * 1000.0).round() as i64;
    let time = Timestamp::from_millisecond(millis).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.2fZ").to_string()
}

/// Returns the current time in seconds since the epoch.
pub(super) fn now_seconds() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// Returns the name of a process state, by the letter that Linux and macOS use.
pub(super) fn state_name(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' | 'U' => "waiting",
        'T' | 't' => "stopped",
        'Z' | 'X' => "zombie",
        'I' => "idle",
        _ => "unknown",
    }
}
