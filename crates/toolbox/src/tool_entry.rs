//! A built-in tool before it is registered: what it says of itself, and its body.

use std::sync::Arc;

use governance::Permit;
use registry::{Preview, ToolRegistry};
use resources::UndoStore;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool::{Failure, Output, ToolSpec};

use crate::on_thread::{Body, Changing, Foresight, OnThread};
use crate::register::ToolboxError;

/// One line of a tool list.
pub(crate) struct ToolEntry {
    spec: ToolSpec,
    executor: Arc<dyn registry::ToolExecutor>,
}

impl ToolEntry {
    /// A tool whose schemas are those of the types its body takes and answers with.
    pub(crate) fn new<A, O>(spec: ToolSpec, body: fn(&Permit, &A) -> Result<Answer<O>, Failure>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        Self::on_thread(spec, Body::Looks(body), |_, _| Ok(Preview::default()))
    }

    /// The same for a tool that changes files, which can be undone from this store. It also says what it would do.
    pub(crate) fn changing<A, O>(
        spec: ToolSpec,
        body: fn(&Changing<'_>, &A) -> Result<Answer<O>, Failure>,
        foresight: Foresight<A>,
        undo: &Arc<UndoStore>,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        Self::on_thread(spec, Body::Changes(body, Arc::clone(undo)), foresight)
    }

    fn on_thread<A, O>(spec: ToolSpec, body: Body<A, O>, foresight: Foresight<A>) -> Self
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

/// The folder that is meant where a call names none.
pub(crate) fn this_folder() -> String {
    ".".to_owned()
}

/// What a body answers: its typed output, and the facts around it.
pub(crate) struct Answer<O> {
    pub(crate) value: O,
    pub(crate) facts: Output,
}
