//! Entry of the pipeline for the inner calls of meta tools. Tools are registered before the execution layer
//! exists, so the composition root connects the entry later.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tool::{Arguments, Caller, Failure, FailureKind, ToolResult, TraceContext};

/// Call that a tool makes on behalf of its caller.
#[derive(Clone, Debug)]
pub struct InnerCall {
    /// Tool name.
    pub tool: String,
    /// Arguments of the tool.
    pub arguments: Arguments,
    /// Caller of the outer tool, who is charged for the call.
    pub caller: Caller,
    /// Trace context below the span of the outer tool.
    pub trace: TraceContext,
    /// Remaining time of the outer tool.
    pub deadline: Duration,
}

/// Future of an inner call. Dropping it cancels the call.
pub type InnerCallFuture = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

type StartInnerCall = Box<dyn Fn(InnerCall) -> Option<InnerCallFuture> + Send + Sync>;

/// Entry of the pipeline. Clones share it.
#[derive(Clone, Default)]
pub struct PipelineEntry {
    start_call: Arc<OnceLock<StartInnerCall>>,
}

impl PipelineEntry {
    /// Connects the entry to the execution layer. `start_call` returns `None` while the process shuts down. Only
    /// the first connection counts, because a process has one layer.
    pub fn connect(&self, start_call: impl Fn(InnerCall) -> Option<InnerCallFuture> + Send + Sync + 'static) {
        let _ = self.start_call.set(Box::new(start_call));
    }

    pub(crate) fn start(&self, call: InnerCall) -> Result<InnerCallFuture, Failure> {
        let walking = self.start_call.get().and_then(|start_call| start_call(call));
        walking.ok_or_else(|| {
            Failure::new(FailureKind::Transient, "no tool can be called now").with_hint("try again")
        })
    }
}

impl fmt::Debug for PipelineEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Road").field("begins", &self.start_call.get().is_some()).finish()
    }
}
