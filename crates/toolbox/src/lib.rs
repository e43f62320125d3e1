//! The built-in tools, one file each, grouped by what they work on.
//!
//! A tool is a typed argument struct, a typed output and a function from a permit to that output. It opens nothing
//! by name: what it may touch comes with the permit, already open.

mod code;
mod filesystem;
mod in_walls;
mod introspection;
mod on_thread;
mod register;
mod room;
mod system;
mod tool_entry;
mod web;

pub use introspection::{Check, Internals, LedgerHealth, RuntimeStatus, Source, ToolStanding};
pub use register::{ToolboxError, register};
pub use web::{PAGE_WORKER, Provider, Robots, Web, WebOptions};
