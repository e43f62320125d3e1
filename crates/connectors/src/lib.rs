//! Executors for the tools of manifests: command-line programs, JSON scripts, MCP servers (sandboxed, or over
//! the network through the outbound gateway), and meta tools, whose inner calls run through the pipeline.
//!
//! [`Connectors::register`] adds the tools of checked manifests to a registry, with their validators and
//! guidance. A tool whose manifest does not state how it runs is listed but cannot be called. Nothing here
//! judges a call: an executor receives a permitted call and runs only what its manifest states.

mod argv;
mod before;
mod behind_walls;
mod cli;
mod error;
mod local;
mod mcp;
mod meta;
mod parsed;
mod payload;
mod pinned;
mod plan;
mod register;
mod road;
mod teaching;

pub use mcp::{HostKey, HostKeys, Seal, Taking, Upstreams};
pub use register::{Connectors, Skipped, left_out};
pub use road::{InnerCall, Road, Walking};
