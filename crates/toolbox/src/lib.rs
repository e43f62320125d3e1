//! The built-in tools, one file each, grouped by what they work on.
//!
//! A tool is a typed argument struct, a typed output and a function from a permit to that output. It opens nothing
//! by name: what it may touch comes with the permit, already open.

mod filesystem;
mod on_thread;
mod tool_entry;

use registry::{RegistryError, ToolRegistry};

pub use tool_entry::ToolboxError;

/// Registers every built-in tool.
pub fn register(registry: &mut ToolRegistry) -> Result<(), ToolboxError> {
    for entry in filesystem::tools() {
        entry.register(registry)?;
    }
    Ok(())
}

impl From<RegistryError> for ToolboxError {
    fn from(error: RegistryError) -> Self {
        ToolboxError::Registry(error)
    }
}
