//! Built-in tools, one file each, grouped by the area they work on.
//!
//! A tool is a typed argument struct, a typed output and a function from a permit to that output. A tool
//! opens nothing by name: the permit carries the files it may touch, already opened.

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
