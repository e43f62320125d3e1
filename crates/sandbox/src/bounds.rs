//! Up to where folders are looked through. What is in them is for others to say, so each bound holds while looking: of
//! entries, of what is remembered of them, and of time.

use std::path::Path;
use std::time::Duration;

use crate::awaited::Until;
use crate::error::SandboxError;

/// A folder larger than this is refused rather than looked through half: what was not seen would not be hidden.
pub(crate) const MOST_BEFORE: usize = 400_000;
/// After a run more is looked at: what it left must be found even where the next one will be refused.
const MOST_AFTER: usize = 4_000_000;
/// What was not found after a run by then is told as unseen. Nobody gives this up: what a run left matters to others than
/// who waits for it.
const LONGEST_AFTER: Duration = Duration::from_secs(30);

/// More names than this are not held one by one: each is a mount.
pub(crate) const MOST_NAMES: usize = 20_000;
pub(crate) const MOST_NAME_BYTES: usize = 4 * 1024 * 1024;
/// More are set aside after a run, and not listed one by one.
const MOST_ASIDE: usize = 100_000;
const MOST_ASIDE_BYTES: usize = 32 * 1024 * 1024;
/// What the names of folders may take that wait to be looked through.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// The bounds of one look.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) entries: usize,
    /// How many names are remembered of what is found.
    pub(crate) names: usize,
    /// How long they are together.
    pub(crate) name_bytes: usize,
    /// What the folders take that wait.
    pub(crate) waiting: usize,
    pub(crate) until: Until,
}

impl Bounds {
    /// Before a run, for as long as its call has.
    pub(crate) fn before(until: Until) -> Bounds {
        Bounds {
            entries: MOST_BEFORE,
            names: MOST_NAMES,
            name_bytes: MOST_NAME_BYTES,
            waiting: MOST_WAITING,
            until,
        }
    }

    /// After a run.
    pub(crate) fn after() -> Bounds {
        Bounds {
            entries: MOST_AFTER,
            names: MOST_ASIDE,
            name_bytes: MOST_ASIDE_BYTES,
            waiting: MOST_WAITING,
            until: Until::after(LONGEST_AFTER),
        }
    }

    /// Whether so many names, so long together, are more than is remembered.
    pub(crate) fn are_too_many(&self, names: usize, bytes: usize) -> bool {
        names > self.names || bytes > self.name_bytes
    }

    pub(crate) fn refuse_late(&self, folder: &Path) -> Result<(), SandboxError> {
        match self.until.is_over() {
            true => Err(SandboxError::OutOfTime(folder.to_owned())),
            false => Ok(()),
        }
    }
}
