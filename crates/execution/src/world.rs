//! Everything a call is judged by, as one immutable value.

use governance::{Policy, Workspaces};
use registry::ToolRegistry;

/// Registry, policy and workspaces of one moment. Replaced whole, never changed.
pub struct World {
    /// The tools.
    pub registry: ToolRegistry,
    /// The rules.
    pub policy: Policy,
    /// The folders callers work in.
    pub workspaces: Workspaces,
}
