//! All built-in tools into a registry.

use std::sync::Arc;

use registry::{RegistryError, ToolRegistry};
use resources::UndoStore;
use sandbox::Sandbox;
use tool::DefinitionError;

use crate::introspection::{self, Internals};
use crate::web::{self, Web};
use crate::{code, filesystem, system};

/// Registers every built-in tool. Those that run programs run them in this sandbox; those that look at Sinew itself ask
/// `internals`; those that go out go this way; those that change files keep in this store what was there before.
pub fn register(
    registry: &mut ToolRegistry,
    sandbox: &Sandbox,
    internals: &Internals,
    web: &Web,
    undo: &Arc<UndoStore>,
) -> Result<(), ToolboxError> {
    for entry in filesystem::tools(undo) {
        entry.register(registry)?;
    }
    for entry in system::tools() {
        entry.register(registry)?;
    }
    for entry in introspection::tools(internals) {
        entry.register(registry)?;
    }
    for entry in code::tools(sandbox) {
        entry.register(registry)?;
    }
    for entry in web::tools(web, sandbox) {
        entry.register(registry)?;
    }
    Ok(())
}

/// Why the built-in tools cannot be used. Only a broken build has one.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// A definition does not pass its own checks.
    #[error("a built-in tool is defined wrongly: {0}")]
    Definition(#[from] DefinitionError),
    /// A name is taken, or a schema cannot be compiled.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}
