//! Options for opening a ledger.

use std::{path::PathBuf, time::Duration};

/// Maximum size of a segment. A start reads one segment, so this bounds the duration of a start. The default
/// is much smaller.
const MAX_SEGMENT_BYTES: u64 = 256 * 1024 * 1024;

/// Treatment of read-only calls while the ledger is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnavailablePolicy {
    /// Read-only calls are refused, like every other call.
    #[default]
    Refuse,
    /// Read-only calls run unless their risk is high. Their records are kept in memory, up to a limit, and
    /// written when the ledger accepts records again. A crash before that loses them.
    AllowReads,
}

/// Location of the parts of a ledger, retention, and behaviour while the ledger is unavailable.
#[derive(Clone, Debug)]
pub struct LedgerOptions {
    /// Key file that seals the records; `key` in the ledger's folder if absent. A key stored elsewhere also
    /// protects against an attacker who can write to that folder.
    pub key_file: Option<PathBuf>,
    /// Second anchor, outside the folder: it reveals that the folder was restored to an older state.
    pub second_anchor: Option<PathBuf>,
    /// Size from which a segment is followed by a new one.
    pub segment_bytes: u64,
    /// Size of all segments from which the oldest are removed, if they are older than `keep_at_least`.
    pub retain_bytes: Option<u64>,
    /// Age from which a segment is removed, if all its records are older.
    pub retain_for: Option<Duration>,
    /// Minimum age: segments with a younger record stay, unless `max_bytes` is exceeded.
    pub minimum_age: Option<Duration>,
    /// Hard limit of all segments together. Removing records younger than `keep_at_least` because of it
    /// raises an alarm.
    pub max_bytes: Option<u64>,
    /// Disk space reserved for the final records when the disk is full.
    pub reserve_bytes: usize,
    /// Treatment of read-only calls while the ledger is unavailable.
    pub when_unavailable: UnavailablePolicy,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        LedgerOptions {
            key_file: None,
            second_anchor: None,
            segment_bytes: 16 * 1024 * 1024,
            retain_bytes: None,
            retain_for: None,
            minimum_age: None,
            max_bytes: None,
            reserve_bytes: 64 * 1024,
            when_unavailable: UnavailablePolicy::default(),
        }
    }
}

impl LedgerOptions {
    /// Sets the path of the key file.
    #[must_use]
    pub fn with_key_file(self, path: PathBuf) -> Self {
        LedgerOptions { key_file: Some(path), ..self }
    }

    /// Sets the path of the second anchor.
    #[must_use]
    pub fn with_second_anchor(self, path: PathBuf) -> Self {
        LedgerOptions { second_anchor: Some(path), ..self }
    }

    /// Sets the size beyond which the oldest segments are removed.
    #[must_use]
    pub fn with_retain_bytes(self, bytes: u64) -> Self {
        // Only whole segments are removed, so small segments keep the total close to the limit.
        let segment_bytes = self.segment_bytes.min(bytes / 8);
        LedgerOptions { retain_bytes: Some(bytes), segment_bytes, ..self }
    }

    /// Sets the age from which segments are removed.
    #[must_use]
    pub fn with_retain_for(self, age: Duration) -> Self {
        LedgerOptions { retain_for: Some(age), ..self }
    }

    /// Sets the minimum age of records and the size limit that overrides it.
    #[must_use]
    pub fn with_minimum_age(self, age: Duration, max_bytes: u64) -> Self {
        let segment_bytes = self.segment_bytes.min(max_bytes / 16);
        LedgerOptions { minimum_age: Some(age), max_bytes: Some(max_bytes), segment_bytes, ..self }
    }

    /// Sets the treatment of read-only calls while the ledger is unavailable.
    #[must_use]
    pub fn with_when_unavailable(self, when_unavailable: UnavailablePolicy) -> Self {
        LedgerOptions { when_unavailable, ..self }
    }

    /// Returns the size from which reads are refused: the last quarter of `max_bytes` is reserved for records
    /// of changes, so that no caller can displace them by reading.
    pub(crate) fn reads_limit(&self) -> u64 {
        self.max_bytes.map_or(u64::MAX, |most| most / 4 * 3)
    }

    pub(crate) fn segment_limit(&self) -> u64 {
        self.segment_bytes.clamp(4096, MAX_SEGMENT_BYTES)
    }
}
