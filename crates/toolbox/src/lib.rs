//! Built-in tools, one file each, grouped by the area they work on.
//!
//! A tool is a typed argument struct, a typed output and a function from a permit to that output. A tool
//! opens nothing by name: the permit carries the files it may touch, already opened.

mod blocking_tool;
mod code;
mod filesystem;
mod introspection;
mod model_text;
mod output_budget;
mod register;
mod sandboxed_tool;
mod system;
mod tool_registration;
mod untrusted_text;
mod web;

pub use introspection::{
    Internals, InternalsSource, LedgerHealth, RuntimeStatus, SelfCheckResult, ToolVerdict,
};
pub use model_text::renderer as model_text;
pub use register::{ToolboxError, register};
pub use web::{PAGE_WORKER, ProviderOptions, RobotsPolicy, WebAccess, WebOptions};
