//! Executor of a tool that is listed but cannot be called: its manifest does not state how it runs, or the
//! program behind it is not the accepted one.

use std::sync::Arc;

use registry::{Order, Running, ToolExecutor};
use tool::{Failure, FailureKind};

/// Executor that always fails with this reason.
pub(crate) struct Uncallable {
    pub(crate) why: String,
    pub(crate) hint: String,
}

impl ToolExecutor for Uncallable {
    fn run(&self, _: Arc<Order>) -> Running {
        let failure = Failure::new(FailureKind::NotFound, self.why.clone()).hint(self.hint.clone());
        Box::pin(async move { Err(failure) })
    }
}
