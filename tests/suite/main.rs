//! End-to-end tests of the real binary, one module per area.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // a test may fail

mod approvals;
mod calls;
#[cfg(target_os = "linux")]
mod campaigns;
#[cfg(target_os = "linux")]
mod clients;
#[cfg(target_os = "linux")]
mod code;
mod command_line;
#[cfg(target_os = "linux")]
mod conformance;
mod console;
mod documents;
mod endpoints;
mod explain;
mod fairness;
mod files;
#[cfg(target_os = "linux")]
mod fleet;
mod guardrail;
mod hook;
mod hostile_input;
mod life;
mod limits;
#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod long_life;
#[cfg(target_os = "linux")]
mod manifests;
mod mcp;
mod modes;
mod old_states;
#[cfg(target_os = "linux")]
mod openat2;
mod policy;
mod protocol;
mod records;
mod reload;
#[cfg(target_os = "linux")]
mod repeats;
mod restart;
mod result_cache;
#[cfg(target_os = "linux")]
mod sandbox;
mod secret_locations;
mod secrets;
#[cfg(target_os = "linux")]
mod service;
mod sessions;
#[cfg(target_os = "linux")]
mod strangers;
#[cfg(target_os = "linux")]
mod system;
mod telemetry;
mod tool_definitions;
#[cfg(target_os = "linux")]
mod uninstall;
#[cfg(target_os = "linux")]
mod upgrade;
#[cfg(target_os = "linux")]
mod web;
