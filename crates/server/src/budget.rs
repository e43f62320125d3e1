//! Memory budget for long messages, shared by all connections.
//!
//! A message of up to `SMALL_MESSAGE_BYTES` is not counted. A longer one acquires a share of the budget first
//! and keeps it until its reply is ready. So neither many connections nor many calls of one connection can
//! add up to more than `TOTAL_BYTES`.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to this size need no share of the budget.
pub(crate) const SMALL_MESSAGE_BYTES: usize = 64 * 1024;
/// Total size of all longer messages. No single message may be longer.
pub(crate) const TOTAL_BYTES: usize = 128 * 1024 * 1024;
/// Bytes per semaphore permit. Permits are counted in 32 bits, so one permit per byte would limit the total.
const BYTES_PER_PERMIT: usize = 1024;

/// Memory budget for long messages. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct MessageBudget(Arc<Semaphore>);

/// Part of the budget held by one message; released on drop.
#[derive(Debug, Default)]
pub(crate) struct BudgetShare(Option<OwnedSemaphorePermit>);

impl MessageBudget {
    pub(crate) fn new() -> Self {
        MessageBudget(Arc::new(Semaphore::new(TOTAL_BYTES / BYTES_PER_PERMIT)))
    }

    /// Waits for a share for a message of up to `bytes`, first come, first served. The whole share is
    /// acquired at once: two messages that each held half of it and waited for the rest would deadlock.
    pub(crate) async fn acquire(&self, bytes: usize) -> BudgetShare {
        BudgetShare(Arc::clone(&self.0).acquire_many_owned(permits_for(bytes.min(TOTAL_BYTES))).await.ok())
    }
}

impl BudgetShare {
    /// Releases what a message of this length does not need.
    pub(crate) fn trim(&mut self, bytes: usize) {
        if let Some(held) = &mut self.0 {
            let surplus = held.num_permits().saturating_sub(bytes.div_ceil(BYTES_PER_PERMIT));
            drop(held.split(surplus));
        }
    }
}

fn permits_for(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BYTES_PER_PERMIT)).unwrap_or(u32::MAX)
}
