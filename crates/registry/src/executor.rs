//! What a tool must be able to do, and what it is handed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use governance::Permit;
use ledger::Intent;
use tool::{Failure, Output, Progress};

/// Leave to run: a permit whose decision is already in the ledger.
///
/// Each layer of the type is made by one stage only, so whoever holds an `Order` holds a call that was checked,
/// judged, opened and recorded, with its own files inside.
pub type Order = Intent<Permit>;

/// A tool at work.
pub type Running = Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send>>;

/// The body of a tool.
pub trait ToolExecutor: Send + Sync + 'static {
    /// Does the work. The order is shared because a thread stuck in a system call outlives its deadline, and must
    /// keep its handles while it does.
    fn run(&self, order: Arc<Order>) -> Running;

    /// The same for a tool that has something to say meanwhile. Most have not.
    fn run_telling(&self, order: Arc<Order>, _progress: Progress) -> Running {
        self.run(order)
    }
}
