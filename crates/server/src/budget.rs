//! The memory that long messages may take, all connections together.
//!
//! A message of up to [`SMALL`] bytes costs its connection alone. A longer one first takes a share of one budget
//! and keeps what it needs of it until its reply is ready, so that neither many connections nor many calls of one
//! can add up to more than [`TOTAL`].

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to this size need no share.
pub(crate) const SMALL: usize = 64 * 1024;
/// What all longer messages may take together. No single message may be longer.
pub(crate) const TOTAL: usize = 64 * 1024 * 1024;
/// Shares are counted in these, because permits are 32-bit.
const UNIT: usize = 1024;

/// The budget. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// What one message holds of the budget; given back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Share(Option<OwnedSemaphorePermit>);

impl Budget {
    pub(crate) fn new() -> Self {
        Budget(Arc::new(Semaphore::new(TOTAL / UNIT)))
    }

    /// Waits for a share for a message of up to `bytes`, in order of asking. The whole is taken at once: two
    /// messages that each held half and waited for the rest would wait forever.
    pub(crate) async fn take(&self, bytes: usize) -> Share {
        Share(Arc::clone(&self.0).acquire_many_owned(units(bytes.min(TOTAL))).await.ok())
    }
}

impl Share {
    /// Gives back what a message of this length does not need.
    pub(crate) fn trim(&mut self, bytes: usize) {
        if let Some(held) = &mut self.0 {
            let surplus = held.num_permits().saturating_sub(bytes.div_ceil(UNIT));
            drop(held.split(surplus));
        }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}
