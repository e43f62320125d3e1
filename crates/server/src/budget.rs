//! Memory budget for long messages, shared by all connections.
//!
//! A message of up to `SMALL_MESSAGE_BYTES` is not counted. A longer one acquires a share of the budget first
//! and keeps what it needs until its reply is ready, so that neither many connections nor many calls of one
//! connection can add up to more than `TOTAL_BYTES`.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to this size need no share of the budget.
pub(crate) const SMALL: usize = 64 * 1024;
/// Total size of all longer messages. No single message may be longer.
pub(crate) const TOTAL: usize = 64 * 1024 * 1024;
/// Bytes per semaphore permit. Permits are counted in 32 bits, so one permit per byte would limit the total.
const UNIT: usize = 1024;

/// Memory budget for long messages. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// Part of the budget held by one message; released on drop.
#[derive(Debug, Default)]
pub(crate) struct Share(Option<OwnedSemaphorePermit>);

impl Budget {
    pub(crate) fn new() -> Self {
        Budget(Arc::new(Semaphore::new(TOTAL / UNIT)))
    }

    /// Waits for a share for a message of up to `bytes`, first come, first served. The whole share is
    /// acquired at once: two messages that each held half of it and waited for the rest would deadlock.
    pub(crate) async fn take(&self, bytes: usize) -> Share {
        Share(Arc::clone(&self.0).acquire_many_owned(units(bytes.min(TOTAL))).await.ok())
    }
}

impl Share {
    /// Releases what a message of this length does not need.
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
