//! A built-in tool before it is registered: what it says of itself, and its body.

use std::sync::Arc;

use governance::Permit;
use registry::{RegistryError, ToolRegistry};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tool::{DefinitionError, Failure, Output, ToolSpec};

use crate::on_thread::OnThread;

/// One line of a tool list.
pub(crate) struct ToolEntry {
    spec: ToolSpec,
    executor: Arc<dyn registry::ToolExecutor>,
}

impl ToolEntry {
    /// A tool whose schemas are those of the types its body takes and answers with.
    pub(crate) fn new<A, O>(spec: ToolSpec, body: fn(&Permit, A) -> Result<Answer<O>, Failure>) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
    {
        ToolEntry { spec: spec.input::<A>().output::<O>(), executor: Arc::new(OnThread::new(body)) }
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

impl<O> Answer<O> {
    pub(crate) fn new(value: O) -> Self {
        Answer { value, facts: Output::default() }
    }
}

/// Why the built-in tools cannot be used. Only a broken build has one.
#[derive(Debug)]
pub enum ToolboxError {
    /// A definition does not pass its own checks.
    Definition(DefinitionError),
    /// A name is taken, or a schema cannot be compiled.
    Registry(RegistryError),
}

impl From<DefinitionError> for ToolboxError {
    fn from(error: DefinitionError) -> Self {
        ToolboxError::Definition(error)
    }
}

impl std::fmt::Display for ToolboxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ToolboxError::Definition(error) => error.fmt(f),
            ToolboxError::Registry(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ToolboxError {}
