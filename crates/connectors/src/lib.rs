//! Executors for the tools of manifests: command-line programs, JSON scripts, MCP servers (sandboxed, or over
//! the network through the outbound gateway), and meta tools, whose inner calls run through the pipeline.
//!
//! [`Connectors::register`] adds the tools of checked manifests to a registry, with their validators and
//! guidance. A tool whose manifest does not state how it runs is listed but cannot be called. Nothing here
//! judges a call: an executor receives a permitted call and runs only what its manifest states.

mod argv;
mod bounded_json;
mod cli;
mod error;
mod file_pin;
mod input_processor;
mod manifest_knowledge;
mod mcp;
mod meta;
mod output_processor;
mod output_progress;
mod pipeline_entry;
mod plan;
mod register;
mod sandboxed_program;
mod script;

pub use manifest_knowledge::{FunctionExample, functions_with_examples};
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use mcp::fuzz_mcp_messages;
pub use mcp::{ConfiguredKey, ConfiguredKeys, PinSealer, PinStore, PinVersion};
pub use pipeline_entry::{InnerCall, InnerCallFuture, PipelineEntry};
pub use register::{Connectors, SkippedTool, find_unregistrable};
