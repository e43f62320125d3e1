//! What is known of a process, whichever system says it. Arguments and variables are not among it: people put secrets
//! there.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// One process at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct ProcessFacts {
    /// Its number.
    pub(super) pid: i64,
    /// When it began (RFC 3339, to the hundredth of a second). Numbers are used again; a number and this are not.
    pub(super) started_at: String,
    /// What it is called.
    pub(super) name: String,
    /// `running`, `sleeping`, `waiting` (for a disk), `stopped`, `zombie`, `idle` or `unknown`.
    pub(super) state: &'static str,
    /// Who started it.
    pub(super) parent_pid: Option<i64>,
    /// The user it runs as, by number.
    pub(super) user_id: Option<u32>,
    /// Since it began.
    pub(super) uptime_seconds: f64,
    /// Processor time it has used.
    pub(super) cpu_seconds: Option<f64>,
    /// How busy it was during the look, where 100 is one whole processor.
    pub(super) cpu_percent: Option<f64>,
    /// Memory it has in use.
    pub(super) memory_bytes: Option<u64>,
    /// Its threads.
    pub(super) threads: Option<u64>,
    /// Files and sockets it has open.
    pub(super) open_files: Option<u64>,
    /// Whether it is Sinew itself.
    pub(super) is_sinew: bool,
    /// Why a value is null, by its name.
    pub(super) unavailable: BTreeMap<&'static str, String>,
}

/// A moment as it is shown, and compared.
pub(super) fn moment(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation)] // far from the ends of an i64
    let millis = (seconds * 1000.0).round() as i64;
    let time = Timestamp::from_millisecond(millis).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.2fZ").to_string()
}

/// The time of now in seconds.
pub(super) fn now() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// The word for a state, by the letter that both systems use.
pub(super) fn state_word(letter: char) -> &'static str {
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
