//! Tools that report on Sinew itself. They run in every mode, so that an operator can diagnose any of them.

mod internals;
mod runtime_status;
mod self_check;

pub use internals::{Check, Internals, LedgerHealth, RuntimeStatus, Source, ToolStanding};

use crate::tool_entry::ToolEntry;

/// Returns the introspection tools.
pub(crate) fn tools(internals: &Internals) -> Vec<ToolEntry> {
    vec![runtime_status::tool(internals), self_check::tool(internals)]
}
