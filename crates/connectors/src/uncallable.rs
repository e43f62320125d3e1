//! A tool that is listed and cannot be called: its manifest does not say how it runs, or says it in a way not known here.

use std::sync::Arc;

use registry::{Order, Running, ToolExecutor};
use tool::{Failure, FailureKind};

/// The body of such a tool.
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
