//! The road that the calls of a meta tool take: the same as everybody's. Tools are registered before there is one, so
//! whoever puts the parts together says later where it begins.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tool::{Arguments, Caller, Failure, FailureKind, ToolResult, TraceContext};

/// A call that a tool makes in the name of who called it.
#[derive(Clone, Debug)]
pub struct InnerCall {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Arguments,
    /// Who is charged for it: the caller of the tool that makes it.
    pub caller: Caller,
    /// Below the span of the tool that makes it.
    pub trace: TraceContext,
    /// What is left of the time of the tool that makes it.
    pub deadline: Duration,
}

/// A call on its way. Whoever drops it takes it back.
pub type Walking = Pin<Box<dyn Future<Output = ToolResult> + Send>>;

type Walk = Box<dyn Fn(InnerCall) -> Option<Walking> + Send + Sync>;

/// Where the road begins. Clones share it.
#[derive(Clone, Default)]
pub struct Road {
    walk: Arc<OnceLock<Walk>>,
}

impl Road {
    /// Says where it begins; nothing comes of a call while the process stops. The first word stays: there is one layer to
    /// lead to.
    pub fn begins(&self, walk: impl Fn(InnerCall) -> Option<Walking> + Send + Sync + 'static) {
        let _ = self.walk.set(Box::new(walk));
    }

    pub(crate) fn walk(&self, call: InnerCall) -> Result<Walking, Failure> {
        let walking = self.walk.get().and_then(|walk| walk(call));
        walking.ok_or_else(|| {
            Failure::new(FailureKind::Transient, "nothing can be called now").hint("try again")
        })
    }
}

impl fmt::Debug for Road {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Road").field("begins", &self.walk.get().is_some()).finish()
    }
}
