//! Built-in tool before its registration: its specification and its executor.

use std::sync::Arc;

use file_access::UndoStore;
use governance::Permit;
use registry::{CallPreview, ToolRegistry};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tool::{Failure, FailureKind, ToolOutput, ToolSpec};

use crate::blocking_tool::{BlockingBody, BlockingTool, ChangeContext, PreviewFn};
use crate::model_text;
use crate::register::ToolboxError;
use crate::sandboxed_tool::SandboxedTool;

/// Specification and executor of one built-in tool.
pub(crate) struct ToolRegistration {
    spec: ToolSpec,
    executor: Arc<dyn registry::ToolExecutor>,
}

impl ToolRegistration {
    /// Creates a read-only tool whose schemas are derived from the argument and output types of its body.
    pub(crate) fn new<A, O>(spec: ToolSpec, body: fn(&Permit, &A) -> Result<TypedOutput<O>, Failure>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        Self::blocking(spec, BlockingBody::ReadOnly(body), |_, _| Ok(CallPreview::default()))
    }

    /// Creates a tool that changes files. It saves the previous content in `undo` and can preview a call.
    pub(crate) fn file_changing<A, O>(
        spec: ToolSpec,
        body: fn(&ChangeContext<'_>, &A) -> Result<TypedOutput<O>, Failure>,
        preview: PreviewFn<A>,
        undo: &Arc<UndoStore>,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        Self::blocking(spec, BlockingBody::FileChanging(body, Arc::clone(undo)), preview)
    }

    fn blocking<A, O>(spec: ToolSpec, body: BlockingBody<A, O>, preview: PreviewFn<A>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        let executor = Arc::new(BlockingTool::new(body, preview));
        ToolRegistration { spec: spec.with_input::<A>().with_output::<O>(), executor }
    }

    /// Creates a tool that runs programs in the sandbox.
    pub(crate) fn sandboxed<A, O>(spec: ToolSpec, executor: SandboxedTool<A, O>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + Sync + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        ToolRegistration { spec: spec.with_input::<A>().with_output::<O>(), executor: Arc::new(executor) }
    }

    /// Creates a tool with its own executor. Its specification already carries the schemas.
    pub(crate) fn with_executor(spec: ToolSpec, executor: Arc<dyn registry::ToolExecutor>) -> Self {
        ToolRegistration { spec, executor }
    }

    pub(crate) fn register(self, registry: &mut ToolRegistry) -> Result<(), ToolboxError> {
        let spec = ToolSpec { model_text: model_text::renderer(&self.spec.name), ..self.spec };
        Ok(registry.register(spec.check()?, self.executor)?)
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

/// Result of a tool body: its typed output and its metadata.
pub(crate) struct TypedOutput<O> {
    pub(crate) value: O,
    pub(crate) metadata: ToolOutput,
}

impl<O: Serialize> TypedOutput<O> {
    /// Serialises the typed output.
    pub(crate) fn into_output(self) -> Result<ToolOutput, Failure> {
        match serde_json::to_value(self.value) {
            Ok(value) => Ok(ToolOutput { value, ..self.metadata }),
            Err(error) => {
                let message = format!("the tool's output is not valid JSON: {error}");
                Err(Failure::new(FailureKind::Crashed, message))
            }
        }
    }
}
