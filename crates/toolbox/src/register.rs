//! Registration of all built-in tools in a registry.

use std::sync::Arc;

use file_access::UndoStore;
use registry::{RegistryError, ToolRegistry};
use sandbox::Sandbox;
use tool::definition::DefinitionError;

use crate::introspection::{self, Internals};
use crate::web::{self, WebAccess};
use crate::{code, filesystem, system};

/// Registers every built-in tool. Tools that run programs use `sandbox`, introspection tools read
/// `internals`, web tools connect through `web`, and tools that change files save the previous content in
/// `undo`.
pub fn register(
    registry: &mut ToolRegistry,
    sandbox: &Sandbox,
    internals: &Internals,
    web: &WebAccess,
    undo: &Arc<UndoStore>,
) -> Result<(), ToolboxError> {
    let areas = [
        filesystem::tools(undo),
        system::tools(),
        introspection::tools(internals),
        code::tools(sandbox),
        web::tools(web, sandbox),
    ];
    areas.into_iter().flatten().try_for_each(|entry| entry.register(registry))
}

/// Reason why the built-in tools cannot be registered. Only a broken build returns it.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// A tool definition fails its own checks.
    #[error("the definition of a built-in tool is invalid: {0}")]
    Definition(#[from] DefinitionError),
    /// A tool name is already registered, or a schema does not compile.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}
