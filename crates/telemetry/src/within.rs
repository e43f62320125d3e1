//! Which call a task works for, so that what any crate logs meanwhile carries the call's ids.

use tool::{SharedText, TraceContext};

/// The ids of a call.
#[derive(Clone, Debug)]
pub(crate) struct CallIds {
    pub(crate) trace_id: SharedText,
    pub(crate) span_id: SharedText,
}

tokio::task_local! {
    static CALL: CallIds;
}

/// Does the work of a call: every log line that is written while it is being polled carries the call's ids.
pub fn within_call<F: Future>(trace: &TraceContext, work: F) -> impl Future<Output = F::Output> + use<F> {
    let ids = CallIds { trace_id: trace.trace_id.clone(), span_id: trace.span_id.clone() };
    CALL.scope(ids, work)
}

/// The call that is at work here, if one is.
pub(crate) fn current() -> Option<CallIds> {
    CALL.try_with(Clone::clone).ok()
}
