//! Tools that report on Sinew itself. They run in every mode, so that an operator can diagnose any of them.

mod internals;
mod runtime_status;
mod self_check;

pub use internals::{Internals, InternalsSource, LedgerHealth, RuntimeStatus, SelfCheckResult, ToolVerdict};

use crate::tool_registration::ToolRegistration;

/// Returns the introspection tools.
pub(crate) fn tools(internals: &Internals) -> Vec<ToolRegistration> {
    vec![runtime_status::tool(internals), self_check::tool(internals)]
}
