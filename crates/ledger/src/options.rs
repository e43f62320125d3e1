//! How a ledger is opened.

use std::{path::PathBuf, time::Duration};

/// The largest segment: a start reads one segment, so this bounds how long a start takes. The usual one is much smaller.
const LARGEST_SEGMENT: u64 = 256 * 1024 * 1024;

/// What becomes of calls that only look while no record can be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnavailable {
    /// They are refused, like every other call.
    #[default]
    Refuse,
    /// Those that are not of high risk run. Their records are owed: kept in memory, so many at most, and written when
    /// records are taken again. A crash before that takes them.
    AllowReads,
}

/// Where the parts of a ledger are, how long they are kept, and what holds while nothing can be written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The key that seals the records; `key` in the ledger's folder where absent. Kept elsewhere, it also protects
    /// against someone who can write that folder.
    pub key_file: Option<PathBuf>,
    /// A second place for the anchor, outside the folder: gives away a folder that was put back to an older state.
    pub witness: Option<PathBuf>,
    /// A segment that has grown past this is followed by a new one.
    pub segment_bytes: u64,
    /// The oldest segments go when all together are larger than this.
    pub keep_bytes: Option<u64>,
    /// Segments go when all their records are older than this.
    pub keep_for: Option<Duration>,
    /// Space kept back for the last words when the disk is full.
    pub reserve_bytes: usize,
    /// What becomes of calls that only look while no record can be taken.
    pub when_unavailable: WhenUnavailable,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            key_file: None,
            witness: None,
            segment_bytes: 16 * 1024 * 1024,
            keep_bytes: None,
            keep_for: None,
            reserve_bytes: 64 * 1024,
            when_unavailable: WhenUnavailable::default(),
        }
    }
}

impl Options {
    /// The same with the key at this place.
    #[must_use]
    pub fn with_key_file(self, path: PathBuf) -> Self {
        Options { key_file: Some(path), ..self }
    }

    /// The same with a second anchor at this place.
    #[must_use]
    pub fn with_witness(self, path: PathBuf) -> Self {
        Options { witness: Some(path), ..self }
    }

    /// The same with the oldest segments let go beyond this size.
    #[must_use]
    pub fn with_keep_bytes(self, bytes: u64) -> Self {
        // Only whole segments go: small ones let the size come close to what was asked for.
        let segment_bytes = self.segment_bytes.min(bytes / 8);
        Options { keep_bytes: Some(bytes), segment_bytes, ..self }
    }

    /// The same with segments let go once all their records are older than this.
    #[must_use]
    pub fn with_keep_for(self, age: Duration) -> Self {
        Options { keep_for: Some(age), ..self }
    }

    /// The same with this said about calls that only look.
    #[must_use]
    pub fn with_when_unavailable(self, when_unavailable: WhenUnavailable) -> Self {
        Options { when_unavailable, ..self }
    }

    pub(crate) fn segment_limit(&self) -> u64 {
        self.segment_bytes.clamp(4096, LARGEST_SEGMENT)
    }
}
