//! Built-in tool before its registration: its specification and its executor.

use std::sync::Arc;

use file_access::UndoStore;
use governance::Permit;
use registry::{Preview, ToolRegistry};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tool::{Failure, FailureKind, Output, ToolSpec};

use crate::in_walls::InWalls;
use crate::on_thread::{Body, Changing, Foresight, OnThread};
use crate::register::ToolboxError;

/// Specification and executor of one built-in tool.
pub(crate) struct ToolEntry {
    spec: ToolSpec,
    executor: Arc<dyn registry::ToolExecutor>,
}

impl ToolEntry {
    /// Creates a read-only tool whose schemas are derived from the argument and output types of its body.
    pub(crate) fn new<A, O>(spec: ToolSpec, body: fn(&Permit, &A) -> Result<Answer<O>, Failure>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        Self::on_thread(spec, Body::Looks(body), |_, _| Ok(Preview::default()))
    }

    /// Creates a tool that changes files. It saves the previous content in `undo` and can preview a call.
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

    /// Creates a tool that runs programs in the sandbox.
    pub(crate) fn sandboxed<A, O>(spec: ToolSpec, executor: InWalls<A, O>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + Sync + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        ToolEntry { spec: spec.input::<A>().output::<O>(), executor: Arc::new(executor) }
    }

    /// Creates a tool with its own executor. Its specification already carries the schemas.
    pub(crate) fn with_executor(spec: ToolSpec, executor: Arc<dyn registry::ToolExecutor>) -> Self {
        ToolEntry { spec, executor }
    }

    pub(crate) fn register(self, registry: &mut ToolRegistry) -> Result<(), ToolboxError> {
        Ok(registry.register(self.spec.check()?, self.executor)?)
    }
}

/// `path` argument of a tool that works in a directory; by default the workspace. The tool uses the opened
/// directory of its permit, so nothing reads the text itself.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
pub(crate) struct FolderArg(String);

impl Default for FolderArg {
    fn default() -> Self {
        FolderArg(".".to_owned())
    }
}

/// Result of a tool body: its typed output and the metadata that goes with it.
pub(crate) struct Answer<O> {
    pub(crate) value: O,
    pub(crate) facts: Output,
}

impl<O: Serialize> Answer<O> {
    /// Serialises the typed output.
    pub(crate) fn into_output(self) -> Result<Output, Failure> {
        match serde_json::to_value(self.value) {
            Ok(value) => Ok(Output { value, ..self.facts }),
            Err(error) => {
                let message = format!("the tool's output is not valid JSON: {error}");
                Err(Failure::new(FailureKind::Crashed, message))
            }
        }
    }
}
