//! Task-local ids of the current call, added to every log line that any crate writes meanwhile.

use tool::{SharedText, TraceContext};

/// Trace and span id of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallIds {
    pub(crate) trace_id: SharedText,
    pub(crate) span_id: SharedText,
}

tokio::task_local! {
    static CALL: CallIds;
}

/// Wraps the work of a call: every log line written while it is polled carries the ids of the call.
pub fn within_call<F: Future>(trace: &TraceContext, work: F) -> impl Future<Output = F::Output> + use<F> {
    let ids = CallIds { trace_id: trace.trace_id.clone(), span_id: trace.span_id.clone() };
    CALL.scope(ids, work)
}

/// Returns the ids of the current call, if there is one.
pub(crate) fn current() -> Option<CallIds> {
    CALL.try_with(Clone::clone).ok()
}
