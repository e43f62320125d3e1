//! Tools that run programs, each in walls of its own.

mod bytes;
mod read_output;
mod run_command;

use sandbox::Sandbox;

use crate::tool_entry::ToolEntry;

/// The tools of this area.
pub(crate) fn tools(sandbox: &Sandbox) -> Vec<ToolEntry> {
    vec![run_command::tool(sandbox), read_output::tool()]
}
