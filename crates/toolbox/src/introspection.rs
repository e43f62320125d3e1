//! Tools that look at Sinew itself. They answer in every mode: whoever puts things right must be able to look.

mod internals;
mod runtime_status;
mod self_check;

pub use internals::{Check, Internals, LedgerHealth, RuntimeStatus, Source, ToolStanding};

use crate::tool_entry::ToolEntry;

/// The tools of this area.
pub(crate) fn tools(internals: &Internals) -> Vec<ToolEntry> {
    vec![runtime_status::tool(internals), self_check::tool(internals)]
}
