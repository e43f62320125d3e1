//! A built-in tool before it is registered: what it says of itself, and its body.

use std::sync::Arc;

use registry::{Preview, ToolRegistry};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool::{Output, ToolSpec};

use crate::on_thread::{Body, Foresight, OnThread};
use crate::register::ToolboxError;

/// One line of a tool list.
pub(crate) struct ToolEntry {
    spec: ToolSpec,
    executor: Arc<dyn registry::ToolExecutor>,
}

impl ToolEntry {
    /// A tool whose schemas are those of the types its body takes and answers with.
    pub(crate) fn new<A, O>(spec: ToolSpec, body: Body<A, O>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        ToolEntry::foreseen(spec, body, |_, _| Ok(Preview::default()))
    }

    /// The same for a tool whose arguments do not say all that it would do.
    pub(crate) fn foreseen<A, O>(spec: ToolSpec, body: Body<A, O>, foresight: Foresight<A>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        let executor = Arc::new(OnThread::new(body, foresight));
        ToolEntry { spec: spec.input::<A>().output::<O>(), executor }
    }

    /// A tool with a body of another kind; its spec has its schemas.
    pub(crate) fn with_executor(spec: ToolSpec, executor: Arc<dyn registry::ToolExecutor>) -> Self {
        ToolEntry { spec, executor }
    }

    pub(crate) fn register(self, registry: &mut ToolRegistry) -> Result<(), ToolboxError> {
        Ok(registry.register(self.spec.check()?, self.executor)?)
    }
}

/// What a body answers: its typed output, and the facts around it.
pub(crate) struct Answer<O> {
    pub(crate) value: O,
    pub(crate) facts: Output,
}
