//! How the tools of manifests run: programs by their command line, scripts by JSON, and servers by the Model Context
//! Protocol, each behind walls or behind the gatekeeper; and tools made of other tools, whose calls take the road.
//!
//! [`Connectors::register`] turns checked manifests into tools of a registry, with their validators and what they teach. A
//! manifest whose type cannot be run here, or that lacks the section of its type, is listed and not callable. Nothing here
//! judges a call: an executor gets an order that was judged, and runs what its manifest says and nothing the caller says.

mod arguments;
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
mod uncallable;

pub use mcp::{HostKey, HostKeys, Seal, Taking, Upstreams};
pub use register::{Connectors, Skipped, left_out};
pub use road::{InnerCall, Road, Walking};
